#pragma once
// A locale with a decimal comma, which most machines lack: made by localedef from the sources of the package "locales".
#include <gtest/gtest.h>
#include <stdlib.h>

#include <clocale>
#include <cstdlib>
#include <string>

#include "temporary_folder.h"

namespace horing::test {

class CommaLocale {
 public:
  static constexpr const char* kName = "de_DE.UTF-8";

  CommaLocale() {
    const std::string made = (folder_.path() / kName).string();
    exists_ = std::system(("localedef -i de_DE -f UTF-8 " + made + " > /dev/null 2>&1").c_str()) == 0;
  }
  ~CommaLocale() { std::setlocale(LC_ALL, "C"); }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

  // False: localedef or its sources are missing.
  bool exists() const { return exists_; }
  // Where a program that sets the locale finds it.
  std::string variable() const { return "LOCPATH=" + folder_.path().string(); }
  // Makes it this program's until this object ends.
  void set() const {
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    ASSERT_TRUE(std::setlocale(LC_ALL, kName));
  }

 private:
  TemporaryFolder folder_;
  bool exists_ = false;
};

#define HORING_NEEDS_COMMA_LOCALE(locale) \
  if (!(locale).exists()) GTEST_SKIP() << "no locale with a decimal comma can be made: package locales"

}  // namespace horing::test
