import http from "node:http";

/**
 * One request to a listener, with what `fetch` hides: raw fields, trailers, 1xx, and whether the response ended well.
 */
export interface Called {
  readonly status: number;
  readonly reason: string;
  /** Names in lower case. */
  readonly fields: readonly (readonly [string, string])[];
  /** latin1. */
  readonly body: string;
  readonly trailers: readonly string[];
  /** `cut`: the connection ended before the answer did. */
  readonly outcome: "ended" | "cut";
  /** The statuses that came before. */
  readonly before: readonly number[];
}

export interface Calling {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
  readonly agent?: http.Agent | false;
}

export function call(url: string, { method = "GET", headers = {}, body, agent }: Calling = {}): Promise<Called> {
  return new Promise((resolve, reject) => {
    const before: number[] = [];
    const options = { method, headers: headers as http.OutgoingHttpHeaders };
    const request = http.request(url, agent === undefined ? options : { ...options, agent });
    request.on("information", ({ statusCode }) => before.push(statusCode));
    request.on("error", reject);
    request.on("response", (response) => {
      let text = "";
      const raw = response.rawHeaders;
      const fields = Array.from(
        { length: raw.length / 2 },
        (_, i) => [(raw[2 * i] ?? "").toLowerCase(), raw[2 * i + 1] ?? ""] as const,
      );
      response.setEncoding("latin1");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("error", () => {});
      response.on("close", () =>
        resolve({
          status: response.statusCode ?? 0,
          reason: response.statusMessage ?? "",
          fields,
          body: text,
          trailers: response.rawTrailers,
          outcome: response.complete ? "ended" : "cut",
          before,
        }),
      );
    });
    request.end(body);
  });
}

export const fieldOf = ({ fields }: Pick<Called, "fields">, name: string): string | undefined =>
  fields.find(([one]) => one === name)?.[1];

/** The code of an error of latchkey's own; undefined when the provider answered. */
export const faultOf = (called: Pick<Called, "fields">): string | undefined => fieldOf(called, "latchkey-error");
