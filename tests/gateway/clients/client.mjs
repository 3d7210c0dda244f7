// Calls URL paths through the gateway with Node's fetch: client.mjs BASE BODY_FILE METHOD PATH [METHOD PATH]…
//
// POST and PUT send the file. Prints of each call: status, and the SHA-256 of the response's body. With CANIGO_PRIORITY
// in the environment all calls go at once, in that class.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const [base, file, ...calls] = process.argv.slice(2);
const priority = process.env.CANIGO_PRIORITY;
const headers = priority ? { "X-Canigo-Priority": priority } : {};

async function call(method, path) {
  const body = method === "POST" || method === "PUT" ? readFileSync(file) : undefined;
  const response = await fetch(base + path, { method, body, headers });
  const text = Buffer.from(await response.arrayBuffer());
  console.log(response.status, createHash("sha256").update(text).digest("hex"));
}

const running = [];
for (let i = 0; i + 1 < calls.length; i += 2) {
  const one = call(calls[i], calls[i + 1]);
  if (priority) running.push(one);
  else await one;
}
await Promise.all(running);
