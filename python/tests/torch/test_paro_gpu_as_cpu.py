"""What holds of PaRO on the CPU holds of it on a GPU: the same tests, whose ranks make their models on an emulated one.

Not those that need what torch has not for the emulated device: LSTM cells, and sparse tensors; nor the one whose bound is the error of torch's fused
attention on the CPU."""

from __future__ import annotations

import pytest
from torch import nn

import emulated_gpu
import ranks
import test_paro_compile
from names import needs_paro
from paro_models import Gpt, Mixture
from test_paro import (  # noqa: F401
    test_every_strategy_trains_as_one_process_does,
    test_groups_of_different_sizes_and_one_rank,
    test_memory_of_each_rank_of_groups_of_different_sizes,
)
from test_paro_background import (  # noqa: F401
    test_a_rank_that_is_killed_meanwhile_is_named,
    test_a_save_and_a_load_at_once_wait_for_it,
    test_async_save_of_torch,
    test_errors_are_raised_at_the_wait_on_all_ranks,
    test_it_has_what_was_there_when_it_was_started,
)
from test_paro_changes import (  # noqa: F401
    test_a_model_that_is_gone_leaves_nothing,
    test_changes_in_a_forward_pass_are_named,
    test_changes_that_cannot_be_right_are_named,
    test_gradients_of_gradients,
    test_parameters_that_freeze_and_thaw,
    test_parametrizations,
)
from test_paro_checkpoint import (  # noqa: F401
    test_any_strategy_and_number_of_ranks_goes_on,
    test_fsdp2_loads_what_paro_saved,
    test_no_good_ones_change_nothing_and_are_named,
    test_numbers_and_statistics,
    test_paro_loads_what_fsdp2_saved,
    test_parts_are_loaded_into_other_types,
)
from test_paro_meta import (  # noqa: F401
    test_a_model_from_the_meta_device_is_initialised_part_by_part,
    test_parameters_are_changed_while_they_are_whole,
    test_rank_0_may_have_values_where_others_have_none,
    test_what_has_no_values_is_named,
)
from test_paro_state_dict import test_numbers_and_optimizers_without_state  # noqa: F401
from test_paro_trouble import (  # noqa: F401
    test_a_backward_pass_that_fails_on_one_rank_ends_the_step_of_all,
    test_a_grad_scaler_skips_a_step_on_all_ranks,
    test_a_killed_rank_is_named_by_its_number_among_all,
    test_checkpoints_around_layers,
    test_exceptions_in_forward_and_in_backward,
    test_gradients_that_would_be_lost,
    test_graphs_that_overlap_and_backward_passes_that_repeat,
    test_layers_used_twice_in_another_order_and_never,
    test_optimizers_that_need_whole_parameters,
    test_ranks_that_do_different_things_are_told,
    test_refused_with_the_name_of_the_parameter,
    test_what_parameters_yields,
)
from test_paro_values import (  # noqa: F401
    test_bfloat16_with_float32_reduction_trains_as_fsdp2_does,
    test_bfloat16_with_masters_of_float32,
    test_memory_decides_and_the_summary_says_what_is_held,
    test_more_gradient_buffers_train_the_same_and_are_counted,
    test_other_groups_and_units_are_refused,
    test_padding_of_many_small_buckets_is_counted_beforehand,
    test_ranks_begin_with_the_values_of_rank_0,
    test_reductions_in_float32_where_asked,
    test_shards_resume_a_training_to_the_bit,
    test_the_unit_that_the_backward_pass_begins_with_is_gathered_once,
    test_units_are_released_after_use_and_prefetched_in_the_order_observed,
    test_values_stay_in_their_own_type_where_they_are_gathered_in_another,
    test_whole_values_fit_the_model_and_any_strategy,
)

pytestmark = needs_paro


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch):
    emulated_gpu.need()
    monkeypatch.setattr(ranks, "on_gpu", True)


@pytest.mark.costly  # half a minute each
@pytest.mark.parametrize("parts", ((Gpt, Mixture), (nn.Sequential,)))
def test_compiled_models(parts):
    test_paro_compile.test_compiled_models_train_as_one_process_does(Gpt, parts)
