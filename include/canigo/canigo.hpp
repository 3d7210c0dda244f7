#pragma once

// All of the core library. The edges (canigo/http/…) and canigo/testing/… are included by name.
#include <canigo/net.hpp>
#include <canigo/version.hpp>
