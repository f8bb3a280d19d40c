import { execFile } from "node:child_process";
import { createServer, request as send } from "node:http";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { describeListener, listen } from "../../src/base/http/listener.ts";
import { writeScripts } from "../cases/syncs/scripting.ts";
import { type Connecting, connecting } from "../support/sidecar/connecting.ts";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const action = (body: string, more = "") => `
  import { createAction } from "latchkey/scripts";
  import * as z from "zod";
  export default createAction({ description: "A tool of the conformance suite.", ${more}
    exec: async (nango: any, input: any) => { ${body} } });`;

const content = 'mcp: { kind: "tool", answers: "content" },';
const prompt = 'mcp: { kind: "prompt" },';
const image = '{ type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" }';
const embedded = (uri: string) =>
  `{ type: "resource", resource: { uri: "${uri}", mimeType: "text/plain", text: "Some text." } }`;

/** Actions whose tools have the names that the suite calls. */
const scripts = {
  "actions/simple_text.ts": action("return 'This is a simple text response for testing.';"),
  "actions/error_handling.ts": action("throw new nango.ActionError({ message: 'This tool always fails.' });"),
  "actions/streaming_elicitation.ts": action("return 'no questions';"),
  "actions/logging_tool.ts": action("await nango.log('one'); return 'logged';"),
  "actions/tool_with_logging.ts": action(
    "for (const step of ['started', 'processing', 'completed']) await nango.log(step); return 'done';",
  ),
  "actions/tool_with_progress.ts": action(
    "for (const progress of [0, 50, 100]) await nango.progress({ progress, total: 100, message: 'at ' + progress });",
  ),
  "actions/image_content.ts": action(`return ${image};`, content),
  "actions/audio_content.ts": action(
    'return { type: "audio", data: "UklGRiQAAABXQVZF", mimeType: "audio/wav" };',
    content,
  ),
  "actions/embedded_resource.ts": action(`return ${embedded("test://embedded-resource")};`, content),
  "actions/multiple_content_types.ts": action(
    `return ["Multiple content types test:", ${image}, ${embedded("test://mixed-content-resource")}];`,
    content,
  ),
  "actions/simple_prompt.ts": action("return 'This is a simple prompt for testing.';", prompt),
  "actions/prompt_with_arguments.ts": action(
    "return `Prompt with arguments: arg1='${input.arg1}', arg2='${input.arg2}'`;",
    `${prompt} input: z.object({ arg1: z.enum(["testValue1", "hello"]), arg2: z.string() }),`,
  ),
  "actions/prompt_with_embedded_resource.ts": action(
    `return [{ content: ${embedded("test://example-resource")} }, { content: "Please process the resource above." }];`,
    `${prompt} input: z.object({ resourceUri: z.string() }),`,
  ),
  "actions/prompt_with_image.ts": action(
    `return [{ content: ${image} }, { content: "Please analyze the image above." }];`,
    prompt,
  ),
  "actions/static_text.ts": action(
    "return 'This is the content of the static text resource.';",
    'mcp: { kind: "resource", uri: "test://static-text", mimeType: "text/plain" },',
  ),
  "actions/static_binary.ts": action(
    'return { blob: "iVBORw0KGgo=" };',
    'mcp: { kind: "resource", uri: "test://static-binary", mimeType: "image/png" },',
  ),
  "actions/watched_resource.ts": action(
    "return 'This changes with the documents.';",
    'mcp: { kind: "resource", uri: "test://watched-resource", follows: "Document" },',
  ),
  "actions/template_data.ts": action(
    "return { id: input.id, templateTest: true, data: `Data for ID: ${input.id}` };",
    'mcp: { kind: "resource", uri: "test://template/{id}/data" }, input: z.object({ id: z.string() }),',
  ),
};

const nameForm = `{ kind: "form", message: "What is your name?", schema: {
  type: "object", properties: { name: { type: "string" } }, required: ["name"] } }`;
const okForm = `{ kind: "form", message: "Please confirm", schema: {
  type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] } }`;
const sampled = (prompt: string) => `{ kind: "sampling", messages: "${prompt}", maxTokens: 100 }`;

/** Actions that ask the client. */
const asking = {
  "actions/missing_capability.ts": action(`await nango.askClient({ model: ${sampled("Hi")} }); return "sampled";`),
  "actions/input_required_result_elicitation.ts": action(
    `const { user_name } = await nango.askClient({ user_name: ${nameForm} });
    return "Hello, " + user_name.content.name + "!";`,
  ),
  "actions/input_required_result_sampling.ts": action(
    `const { capital_question } = await nango.askClient({ capital_question: ${sampled("What is the capital of France?")} });
    return capital_question.content.text;`,
  ),
  "actions/sampling.ts": action(
    `const { model } = await nango.askClient({
      model: { kind: "sampling", messages: input.prompt, maxTokens: 100 } });
    return "LLM response: " + model.content.text;`,
    "input: z.object({ prompt: z.string() }),",
  ),
  "actions/elicitation.ts": action(
    `const { user } = await nango.askClient({ user: { kind: "form", message: input.message, schema: {
      type: "object", required: ["username", "email"], properties: {
        username: { type: "string", description: "User's response" },
        email: { type: "string", description: "User's email address" } } } } });
    return "User response: " + JSON.stringify(user);`,
    "input: z.object({ message: z.string() }),",
  ),
  "actions/elicitation_sep1034_defaults.ts": action(
    `const { user } = await nango.askClient({ user: { kind: "form", message: "Who?", schema: { type: "object", properties: {
      name: { type: "string", default: "John Doe" }, age: { type: "integer", default: 30 },
      score: { type: "number", default: 95.5 }, verified: { type: "boolean", default: true },
      status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" } } } } });
    return "Elicitation completed: " + JSON.stringify(user);`,
  ),
  "actions/elicitation_sep1330_enums.ts": action(
    `const values = ["value1", "value2"].map((value) => ({ const: value, title: "Title of " + value }));
    const options = ["option1", "option2", "option3"];
    const { user } = await nango.askClient({ user: { kind: "form", message: "Which?", schema: { type: "object", properties: {
      untitledSingle: { type: "string", enum: options }, titledSingle: { type: "string", oneOf: values },
      legacyEnum: { type: "string", enum: ["opt1", "opt2"], enumNames: ["Option One", "Option Two"] },
      untitledMulti: { type: "array", items: { type: "string", enum: options } },
      titledMulti: { type: "array", items: { anyOf: values } } } } } });
    return "Elicitation completed: " + JSON.stringify(user);`,
  ),
  "actions/input_required_result_list_roots.ts": action(
    'const { client_roots } = await nango.askClient({ client_roots: { kind: "roots" } }); return client_roots.roots[0].uri;',
  ),
  "actions/input_required_result_request_state.ts": action(
    `await nango.askClient({ confirm: ${okForm} }); return "state-ok";`,
  ),
  "actions/input_required_result_multiple_inputs.ts": action(
    `const { user_name, greeting } = await nango.askClient({
      user_name: ${nameForm}, greeting: ${sampled("Generate a greeting")}, client_roots: { kind: "roots" } });
    return greeting.content.text + " " + user_name.content.name;`,
  ),
  "actions/input_required_result_multi_round.ts": action(
    `const { step1 } = await nango.askClient({ step1: ${nameForm} });
    const { step2 } = await nango.askClient({ step2: { kind: "form", message: "What is your favorite color?", schema: {
      type: "object", properties: { color: { type: "string" } }, required: ["color"] } } });
    return step1.content.name + " likes " + step2.content.color;`,
  ),
  "actions/input_required_result_tampered_state.ts": action(
    `await nango.askClient({ confirm: ${okForm} }); return "confirmed";`,
  ),
  "actions/input_required_result_capabilities.ts": action(
    `const { forms, sampling } = await nango.getMcpClient();
    return await nango.askClient({
      ...(forms && { user_name: ${nameForm} }), ...(sampling && { greeting: ${sampled("Generate a greeting")} }) });`,
  ),
  "actions/input_required_result_prompt.ts": action(
    `const { user_context } = await nango.askClient({ user_context: { kind: "form",
      message: "What context should the prompt use?",
      schema: { type: "object", properties: { context: { type: "string" } }, required: ["context"] } } });
    return "Use this context: " + user_context.content.context;`,
    prompt,
  ),
};

/** Tools of an integration `test`, with one connection. */
async function servedTools(): Promise<Connecting> {
  const folder = await temporaryFolder();
  writeScripts(folder, { ...scripts, ...asking }, "test");
  const all = await connecting({
    integrations: [{ environment: "dev", key: "test", provider: "sandbox-api-key" }],
    sidecar: { env: { LATCHKEY_SCRIPTS: folder } },
  });
  const { status } = await all.sidecar.rest("POST", "/connections", {
    body: {
      provider_config_key: "test",
      connection_id: "ada",
      credentials: { type: "API_KEY", apiKey: "sandbox-api-key" },
    },
  });
  expect(status).toBe(201);
  return all;
}

/** The suite sends no key: this adds one, and changes nothing else. */
async function withKey(target: string): Promise<string> {
  const { hostname, port } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    const { method, url, rawHeaders } = incoming;
    const headers = [...rawHeaders, "authorization", `Bearer ${secretKey}`];
    const onward = send({ hostname, port, method, path: url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await listen(server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return describeListener(server, false);
}

const program = fileURLToPath(
  new URL("clients/node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url),
);

it.skipIf(lacks("clients")).each(["2026-07-28", "2025-11-25"])(
  "meets what MCP %s requires of servers",
  { timeout: 240_000 },
  async (revision) => {
    const all = await servedTools();
    const url = `${await withKey(all.sidecar.data)}/mcp`;
    const folder = await temporaryFolder();
    const given = ["server", "--url", url, "--requirements", revision, "-o", folder];
    const { code, text } = await new Promise<{ code: number; text: string }>((resolve) =>
      execFile(process.execPath, [program, ...given], { timeout: 230_000 }, (error, out, errors) =>
        resolve({ code: error === null ? 0 : 1, text: `${out}${errors}` }),
      ),
    );
    expect(code, text).toBe(0);
  },
);
