/** A request as code that another program can run. The key is a placeholder. */
export interface SnippetRequest {
  readonly integration: string;
  readonly connection: string;
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

export type SnippetLanguage = "curl" | "node" | "python";

export const snippetLanguages: readonly (readonly [SnippetLanguage, string])[] = [
  ["curl", "curl"],
  ["node", "Node.js"],
  ["python", "Python"],
];

/** The default address of the data listener. */
const base = "http://localhost:3003/proxy";
const placeholder = "YOUR_KEY";

export function snippetOf(language: SnippetLanguage, request: SnippetRequest): string {
  if (language === "node") return nodeSnippet(request);
  return language === "python" ? pythonSnippet(request) : curlSnippet(request);
}

const fieldsOf = ({ integration, connection, headers }: SnippetRequest): [string, string][] => [
  ["Authorization", `Bearer ${placeholder}`],
  ["Provider-Config-Key", integration],
  ["Connection-Id", connection],
  ...headers.map(([name, value]): [string, string] => [name, value]),
];

function curlSnippet(request: SnippetRequest): string {
  const { method, path, body } = request;
  const options = [
    ...(method === "GET" ? [] : [`-X ${method}`]),
    ...fieldsOf(request).map(([name, value]) => `-H ${inShell(`${name}: ${value}`)}`),
    ...(body === "" ? [] : [`--data-raw ${inShell(body)}`]),
  ];
  return [`curl ${inShell(base + path)}`, ...options.map((option) => `  ${option}`)].join(" \\\n");
}

/** In single quotes the shell reads no character but the quote itself. */
const inShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function nodeSnippet(request: SnippetRequest): string {
  const { method, path, body } = request;
  const fields = fieldsOf(request).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`);
  return [
    `const response = await fetch(${JSON.stringify(base + path)}, {`,
    `  method: ${JSON.stringify(method)},`,
    "  headers: {",
    ...fields,
    "  },",
    ...(body === "" ? [] : [`  body: ${JSON.stringify(body)},`]),
    "});",
    "console.log(response.status, await response.text());",
  ].join("\n");
}

/** A JSON text is a Python text too. */
function pythonSnippet(request: SnippetRequest): string {
  const { method, path, body } = request;
  const fields = fieldsOf(request).map(([name, value]) => `        ${JSON.stringify(name)}: ${JSON.stringify(value)},`);
  return [
    "import requests",
    "",
    "response = requests.request(",
    `    ${JSON.stringify(method)},`,
    `    ${JSON.stringify(base + path)},`,
    "    headers={",
    ...fields,
    "    },",
    ...(body === "" ? [] : [`    data=${JSON.stringify(body)}.encode(),`]),
    ")",
    "print(response.status_code, response.text)",
  ].join("\n");
}
