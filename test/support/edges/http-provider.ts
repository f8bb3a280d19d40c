import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A provider that notes each request, and refuses the credentials that a test names. */
export interface HttpProvider {
  readonly url: string;
  readonly requests: readonly { readonly url: string | undefined; readonly authorization: string | undefined }[];
  readonly refused: Set<string>;
}

export async function startHttpProvider(): Promise<HttpProvider> {
  const requests: { url: string | undefined; authorization: string | undefined }[] = [];
  const refused = new Set<string>();
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    requests.push({ url: request.url, authorization });
    response.writeHead(refused.has(authorization ?? "") ? 401 : 200, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, refused };
}
