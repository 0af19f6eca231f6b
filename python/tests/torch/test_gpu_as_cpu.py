"""What holds of tensors on the CPU holds of those on a GPU: the same tests, whose ranks make tensors on an emulated one."""

from __future__ import annotations

import pytest

import emulated_gpu
import ranks
from test_collectives import (  # noqa: F401
    test_all_to_all,
    test_all_to_all_uneven,
    test_coalesced,
    test_moves,
    test_moves_with_a_root,
    test_objects_and_barriers,
    test_premultiplied_sum,
    test_reduce_scatter,
    test_reductions,
    test_uneven_lists,
)
from test_layouts import (  # noqa: F401
    test_conjugated_and_negated_views,
    test_elements_that_share_memory_are_refused,
    test_messages_of_views,
    test_parameters_that_require_gradients,
    test_the_same_output_twice_and_in_place,
    test_views,
    test_views_in_the_other_collectives,
    test_views_of_a_tensor_for_all_ranks,
)
from test_messages import (  # noqa: F401
    test_a_pipeline,
    test_both_send_first,
    test_from_anybody,
    test_messages_between_collectives_and_other_ranks,
    test_receives_started_long_before_the_sends_they_wait_for,
    test_send_and_receive_of_every_type,
    test_tags_match_whatever_the_order,
    test_to_oneself,
)
from test_order import (  # noqa: F401
    test_a_future_of_a_call_of_the_group_itself,
    test_a_future_of_every_operation,
    test_a_handle_is_waited_for_by_another_thread,
    test_futures,
    test_only_the_operation_holds_its_tensors,
    test_order_on_one_tensor_whoever_waits_when,
    test_threads_share_a_group,
    test_threads_with_a_group_each,
)
from test_training import (  # noqa: F401
    test_ddp,
    test_ddp_comm_hooks,
    test_ddp_no_sync_join_and_batch_norm,
    test_ddp_takes_the_parameters_of_rank_0_and_skips_unused_ones,
    test_fsdp,
    test_fsdp_with_bfloat16_and_hsdp,
    test_functional_collectives,
    test_sharded_optimizer,
    test_tensor_parallel,
)


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch):
    emulated_gpu.need()
    monkeypatch.setattr(ranks, "on_gpu", True)
