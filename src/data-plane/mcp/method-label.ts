/** Methods of both eras that clients send. Others are the caller's text, which is no label. */
const known: ReadonlySet<string> = new Set([
  ...["initialize", "ping", "server/discover", "tools/list", "tools/call", "completion/complete", "logging/setLevel"],
  ...["resources/list", "resources/read", "resources/templates/list", "resources/subscribe", "resources/unsubscribe"],
  ...["prompts/list", "prompts/get", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/cancel", "tasks/result"],
]);

/** Returns the method of a message for metrics; `(stream)` and `(end)` for the other requests of the transport. */
export function methodLabel(httpMethod: string | undefined, method: string | undefined): string {
  if (httpMethod === "GET") return "(stream)";
  if (httpMethod === "DELETE") return "(end)";
  if (method === undefined) return "(other)";
  if (method.startsWith("notifications/")) return "(notification)";
  return known.has(method) ? method : "(other)";
}
