// Makes calls by one client library for Node: driver.mjs CLIENT, with "CASE URL" on each line of standard input.
//
// The driver prints JSON: a line when it is ready, with the library's own time limit if it tells that, one for the first event of a stream, one for the end of each call.
// Calls of octokit are processes of their own, because its throttle is one for all instances of a process.
import { fork } from "node:child_process";
import { createInterface } from "node:readline";

const PATIENT = 300_000; // ms: longer than any wait here
const messages = [{ role: "user", content: "Hello" }];

async function* pieces(body) {
  for await (const chunk of body) yield chunk;
}

const kinds = {
  "openai (Node)": async () => {
    const { default: OpenAI } = await import("openai");
    const at = (url) => {
      const client = new OpenAI({ apiKey: "key", baseURL: `${url}/v1` });
      const ask = { model: "m", messages, max_tokens: 50 };
      return {
        call: async () => (await client.chat.completions.create(ask)).choices[0].message.content,
        async *stream() {
          const streaming = { ...ask, stream: true, stream_options: { include_usage: true } };
          for await (const chunk of await client.chat.completions.create(streaming))
            yield chunk.choices[0]?.delta.content;
        },
      };
    };
    return Object.assign(at, { limit: new OpenAI({ apiKey: "key" }).timeout / 1000 });
  },
  "@anthropic-ai/sdk": async () => {
    const { default: Anthropic } = await import("@anthropic-ai/sdk");
    const at = (url) => {
      const client = new Anthropic({ apiKey: "key", baseURL: url });
      const ask = { model: "m", messages, max_tokens: 50 };
      return {
        call: async () => (await client.messages.create(ask)).content[0].text,
        async *stream() {
          for await (const event of await client.messages.create({ ...ask, stream: true }))
            if (event.type === "content_block_delta") yield event.delta.text;
        },
      };
    };
    return Object.assign(at, { limit: new Anthropic({ apiKey: "key" }).timeout / 1000 });
  },
  ai: async () => {
    const { generateText, streamText } = await import("ai");
    const { createOpenAI } = await import("@ai-sdk/openai");
    return (url) => {
      const model = createOpenAI({ apiKey: "key", baseURL: `${url}/v1` }).chat("m");
      return {
        call: async () => (await generateText({ model, prompt: "Hello" })).text,
        stream: () => streamText({ model, prompt: "Hello" }).textStream,
      };
    };
  },
  octokit: async () => {
    const { Octokit } = await import("octokit");
    return (url) => {
      const client = new Octokit({ auth: "key", baseUrl: url });
      return { call: async () => (await client.rest.repos.get({ owner: "a", repo: "b" })).data.full_name };
    };
  },
  got: async () => {
    const { default: got } = await import("got");
    return (url) => ({
      call: () => got(`${url}/plain`).text(),
      stream: () => pieces(got.stream(`${url}/plain`)),
    });
  },
  axios: async () => {
    const { default: axios } = await import("axios");
    return (url) => ({
      call: async () => (await axios.get(`${url}/plain`)).data,
      stream: async function* () {
        yield* pieces((await axios.get(`${url}/plain`, { responseType: "stream" })).data);
      },
    });
  },
  ky: async () => {
    const { default: ky } = await import("ky");
    return (url, patient) => {
      const options = patient ? { timeout: PATIENT } : {};
      return {
        call: () => ky(`${url}/plain`, options).text(),
        stream: async function* () {
          yield* pieces((await ky(`${url}/plain`, options)).body);
        },
      };
    };
  },
  undici: async () => {
    const { request } = await import("undici");
    return (url) => ({
      call: async () => {
        const { statusCode, body } = await request(`${url}/plain`);
        const text = await body.text();
        if (statusCode !== 200) throw new Error(`status ${statusCode}`);
        return text;
      },
      stream: async function* () {
        yield* pieces((await request(`${url}/plain`)).body);
      },
    });
  },
  fetch: async () => (url) => ({
    call: async () => {
      const answer = await fetch(`${url}/plain`);
      const text = await answer.text();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return text;
    },
    stream: async function* () {
      yield* pieces((await fetch(`${url}/plain`)).body);
    },
  }),
};

const tell = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

async function run(make, name, url) {
  const begun = performance.now();
  const end = {};
  try {
    const client = make(url, name === "patient");
    if (name === "stream") {
      let count = 0;
      for await (const piece of client.stream()) {
        if (piece?.length && count++ === 0) tell({ case: name, event: "first" });
      }
      end.value = String(count);
    } else {
      end.value = await client.call();
    }
  } catch (error) {
    Object.assign(end, { error: error.constructor.name, text: String(error) });
  }
  tell({ case: name, seconds: (performance.now() - begun) / 1000, ...end });
}

const [client, alone] = process.argv.slice(2);
const make = await kinds[client]();
if (alone) {
  await run(make, ...alone.split(" "));
} else {
  tell({ ready: true, limit: make.limit });
  for await (const line of createInterface({ input: process.stdin })) {
    if (client === "octokit") fork(process.argv[1], [client, line]);
    else run(make, ...line.split(" "));
  }
}
