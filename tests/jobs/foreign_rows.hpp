#pragma once

#include <string>

/// An invalid value in the row of a waiting job that another program has written.
struct foreign_row {
  std::string column;
  std::string value;
  std::string range = {};  // the range that an error must name; empty: the value is readable, and a run can't raise it
};

/// Invalid values for each database. They fit the types of its columns.
inline const foreign_row foreign_rows[] = {{"state", "30000", "0 to 4"},
                                           {"state", "-1", "0 to 4"},
                                           {"priority", "99", "0 to 15"},
                                           {"token", "-7", "0 to 9223372036854775807"},
                                           {"attempt", "-2147483648", "0 to 2147483647"},
                                           {"max_attempts", "-3", "0 to 2147483647"},
                                           {"crashes", "-1", "0 to 2147483647"},
                                           {"snoozes", "-1", "0 to 2147483647"},
                                           {"token", "9223372036854775807"},
                                           {"attempt", "2147483647"}};
