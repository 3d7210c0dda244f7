#pragma once

// All of the core library. The edges (canigo/http/…) and canigo/testing/… are included by name.
#include "canigo/cancel.hpp"
#include "canigo/cancel_after.hpp"
#include "canigo/error.hpp"
#include "canigo/histogram.hpp"
#include "canigo/net.hpp"
#include "canigo/rate.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"
#include "canigo/token_bucket.hpp"
#include "canigo/version.hpp"
