// What Node's parser takes bytes for: a server that tells of each request which it has got whole, in X-Seen, its
// method, target and the SHA-256 of its body. Prints its port.
import { createHash } from "node:crypto";
import { createServer } from "node:http";

const server = createServer((request, response) => {
  const hash = createHash("sha256");
  request.on("data", (piece) => hash.update(piece));
  request.on("error", () => {});
  request.on("end", () => {
    response.setHeader("X-Seen", `${request.method} ${request.url} ${hash.digest("hex")}`);
    response.end();
  });
});
server.on("checkContinue", (request, response) => server.emit("request", request, response));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
