// The openai SDK for Node.js. Modes: stream, helper, runTools. Run in the folder that holds the package.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [installed, mode, baseURL, prompt] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(createRequire(`${installed}/`).resolve("openai")));
const client = new OpenAI({ baseURL, apiKey: "none" });

const run = {
  read_file: ({ path }) => readFileSync(path, "utf8"),
  write_file: ({ path, content }) => (writeFileSync(path, content), `${content.length} characters written`),
};
const parameters = (...names) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  required: names,
});
const tools = [
  { type: "function", function: { name: "read_file", description: "Read a file.", parameters: parameters("path") } },
  {
    type: "function",
    function: { name: "write_file", description: "Write a file.", parameters: parameters("path", "content") },
  },
];

const ask = {
  async stream(messages) {
    const said = { role: "assistant", content: "", tool_calls: [] };
    for await (const { choices } of await client.chat.completions.create({
      model: "scripted",
      messages,
      tools,
      stream: true,
    })) {
      const delta = choices[0]?.delta ?? {};
      said.content += delta.content ?? "";
      for (const piece of delta.tool_calls ?? []) {
        said.tool_calls[piece.index] ??= { id: piece.id, type: "function", function: { name: "", arguments: "" } };
        said.tool_calls[piece.index].function.name += piece.function?.name ?? "";
        said.tool_calls[piece.index].function.arguments += piece.function?.arguments ?? "";
      }
    }
    if (!said.tool_calls.length) delete said.tool_calls;
    return said;
  },
  helper: (messages) => client.chat.completions.stream({ model: "scripted", messages, tools }).finalMessage(),
};

const messages = [{ role: "user", content: prompt }];
if (mode === "runTools") {
  const runnable = tools.map((tool) => ({
    type: "function",
    function: { ...tool.function, parse: JSON.parse, function: run[tool.function.name] },
  }));
  const runner = client.chat.completions.runTools({ model: "scripted", messages, tools: runnable, stream: true });
  console.log(await runner.finalContent());
} else {
  for (let turn = 0; turn < 10; turn++) {
    const message = await ask[mode](messages);
    messages.push(message);
    if (!message.tool_calls?.length) {
      console.log(message.content);
      break;
    }
    for (const { id, function: call } of message.tool_calls)
      messages.push({ role: "tool", tool_call_id: id, content: run[call.name](JSON.parse(call.arguments)) });
  }
}
