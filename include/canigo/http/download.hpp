#pragma once

#include "canigo/http/client.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <filesystem>

namespace canigo::http {

/// Sends the request, and writes the body of the response to the file `to`.
///
/// The file appears as a whole or not at all: the body goes to a new file in the same folder, which takes the place of
/// `to` at the end. After an error the new file is removed. The result is the head of the response, with its body_size.
/// If its status is not from 200 to 299, no file is written, and an old one stays.
///
/// The client must stay until the head is there. No time limit counts after the head, as for client::open(). The file
/// has the mode 0666 without the bits of the process's umask. It is written by ordinary calls, which hold up the thread
/// while the disk is slow, and is not flushed to the disk.
///
/// Errors: those of client::open() and exchange::read_some(), thrown with their problem; those of the system category,
/// whose text names the file. If `to` is there and no regular file: errc::invalid_argument, and nothing is sent.
/// Cancellation: that of client::open() and exchange::read_some().
/// Allocates: 64 KiB, up to 256 KiB for a body that comes fast, and the coroutine's frame.
net::awaitable<response> download(client& c, request r, std::filesystem::path to);

}  // namespace canigo::http
