// The client that the conformance suite runs: asks the test to connect and use the server of a scenario.
const {
  CONFORMANCE_TEST,
  MCP_CONFORMANCE_SCENARIO: scenario,
  MCP_CONFORMANCE_PROTOCOL_VERSION: version,
  MCP_CONFORMANCE_CONTEXT: context,
} = process.env;
const call = { scenario, version, context, url: process.argv.at(-1) };
const { failure } = await (await fetch(CONFORMANCE_TEST, { method: "POST", body: JSON.stringify(call) })).json();
if (failure !== undefined) {
  console.error(failure);
  process.exit(1);
}
