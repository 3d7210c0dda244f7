// A server of Node for real_servers.py: node server.js PORT TLS_PORT CERTIFICATE KEY. server.go has the same paths.
'use strict';
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const zlib = require('zlib');

let held = 0, left = 0;

function pattern(size) {
  const text = Buffer.alloc(size);
  for (let i = 0; i < size; ++i) text[i] = 97 + (i * 31) % 26;
  return text;
}

class Adler {
  constructor() { this.a = 1; this.b = 0; }
  add(part) {
    for (const byte of part) {
      this.a = (this.a + byte) % 65521;
      this.b = (this.b + this.a) % 65521;
    }
  }
  get sum() { return this.b * 65536 + this.a; }
}

function write(response, status, text, fields = {}) {
  response.writeHead(status, {'Content-Length': text.length, ...fields});
  response.end(text);
}

// Ends the connection, of HTTP/2 the stream, without an end of the answer.
function abort(request, response) {
  if (response.stream) response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
  else request.socket.destroy();
}

async function byParts(response, text, size, pause) {
  response.writeHead(200);
  for (let at = 0; at < text.length; at += size) {
    if (!response.write(text.subarray(at, at + size))) await new Promise(go => response.once('drain', go));
    if (pause) await new Promise(go => setTimeout(go, pause));
  }
  response.end();
}

async function events(request, response) {
  const from = Number(request.headers['last-event-id'] || 0);
  let text = (from ? '' : '\ufeff') + ': a comment\r\nretry: 50\r\n\r\n';
  for (let id = from + 1; id <= from + 3; ++id)
    text += `id: ${id}\r\nevent: größe\r\ndata: é ${id} €\r\ndata: 𝄞 second\r\n\r\n`;
  text += 'id: 999\r\ndata: not finished\r\n';
  response.writeHead(200, {'Content-Type': 'text/event-stream'});
  for (const byte of Buffer.from(text)) {  // each byte is a chunk
    await new Promise(go => response.write(Buffer.from([byte]), go));
  }
  abort(request, response);
}

function hold(request, response) {
  ++held;
  (response.stream || request.socket).once('close', () => ++left);
}

// Calls `then` after so many bytes of the body. The rest is taken and dropped.
function after(request, size, then) {
  let seen = 0, done = false;
  const look = () => {
    if (done || seen < size) return;
    done = true;
    then();
  };
  request.on('data', part => { seen += part.length; look(); });
  look();
}

function handle(request, response) {
  request.on('error', () => {});
  response.on('error', () => {});
  const url = new URL(request.url, 'http://localhost');
  const [, path, number] = url.pathname.split('/');
  const size = Number(number || 0);
  switch (path) {
    case 'bytes': return write(response, 200, pattern(size));
    case 'chunked': return byParts(response, pattern(size), 10007, 0);
    case 'trickle': return byParts(response, pattern(size), 1, 10);
    case 'echo': {
      const sum = new Adler();
      let count = 0;
      request.on('data', part => { sum.add(part); count += part.length; });
      request.on('end', () => write(response, 200, Buffer.from(JSON.stringify({
        size: count, sum: sum.sum, complete: request.complete, method: request.method,
        length: Number(request.headers['content-length'] || -1), proto: request.httpVersionMajor,
        expect: request.headers.expect || ''}))));
      return;
    }
    case 'refuse': return after(request, size, () => write(response, 413, Buffer.from('too much')));
    case 'drop': return after(request, size, () => abort(request, response));
    case 'cut':
      response.writeHead(200, {'Content-Length': 2 * size});
      return response.write(pattern(size), () => setTimeout(() => abort(request, response), 50));
    case 'gzip': return write(response, 200, zlib.gzipSync(pattern(size)), {'Content-Encoding': 'gzip'});
    case 'gzip-cut': {
      const text = zlib.gzipSync(pattern(size));
      return write(response, 200, text.subarray(0, text.length / 2), {'Content-Encoding': 'gzip'});
    }
    case 'gzip-twice': {
      const text = zlib.gzipSync(pattern(size));
      return write(response, 200, Buffer.concat([text, text]), {'Content-Encoding': 'gzip'});
    }
    case 'events': return events(request, response);
    case 'hold':
      hold(request, response);
      response.writeHead(200);
      return response.write(pattern(100));
    case 'silence': return hold(request, response);
    case 'counts': return write(response, 200, Buffer.from(JSON.stringify({held, left})));
    case 'to': return write(response, 302, Buffer.alloc(0), {Location: url.searchParams.get('url')});
    case 'early':
      response.writeEarlyHints({link: '</style.css>; rel=preload'});
      return write(response, 200, Buffer.from('after 103'));
    default: return write(response, 404, Buffer.from('no such path'));
  }
}

const [port, tlsPort, cert, key] = process.argv.slice(2);
http.createServer(handle).listen(port, '127.0.0.1');
http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true}, handle)
  .listen(tlsPort, '127.0.0.1');
