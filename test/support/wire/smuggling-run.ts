import { connect } from "node:net";
import type { Doorway } from "../peers/doorways.ts";
import type { Probed, ProxiedSidecar, RecordingProvider } from "../peers/provider.ts";
import type { Attempt } from "./smuggling.ts";

interface SmugglingTarget {
  readonly provider: RecordingProvider;
  readonly door: Doorway;
}

/** Runs all attempts, a few at a time, and describes the unexpected outcomes. */
export async function failuresOf(attempts: readonly Attempt[], { provider, door }: SmugglingTarget): Promise<string[]> {
  const failures: string[] = [];
  const ran: { attempt: Attempt; id: string; probed: Probed }[] = [];
  // No path of one doorway is a path of another.
  const prefix = door.name.replace(/[^a-z]/g, "").slice(0, 4);
  const queue = [...attempts.entries()];
  const work = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [n, attempt] = next;
      const id = `${prefix}${n}z`;
      ran.push({ attempt, id, probed: await probe(door.address, attempt.bytes(id, door), attempt) });
    }
  };
  await Promise.all(Array.from({ length: 48 }, work));
  for (const { attempt, id, probed } of ran) {
    const failure = failureOf(attempt, { id, probed, provider });
    if (failure !== undefined)
      failures.push(`${attempt.name}: ${failure}; ${JSON.stringify(probed.text.slice(0, 200))}`);
  }
  return failures;
}

/** What open connections to the provider hold after the last request: another reader might take it for one. */
export const leftOver = ({ connections }: RecordingProvider): readonly string[] =>
  connections.filter(({ rest, socket }) => rest() !== "" && !socket.closed).map(({ rest }) => rest());

/** A slow machine may take this long. */
const patienceMs = 30_000;
/** A second request would come within this time after the first was answered. */
const silentMs = 300;

/** Sends the bytes, and resolves when the listener has closed the connection, or was silent after an expected answer. */
function probe(address: string, bytes: string, { expected }: Attempt): Promise<Probed> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(address);
    const socket = connect(Number(port), hostname);
    let text = "";
    const done = (isClosed: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ text, isClosed });
    };
    let timer = setTimeout(done, patienceMs, false);
    socket.setEncoding("latin1").on("error", () => {});
    socket.on("data", (chunk: string) => {
      text += chunk;
      const isAnswered = text.startsWith("HTTP/1.1 2") && expected !== "refused";
      clearTimeout(timer);
      timer = setTimeout(done, isAnswered ? silentMs : patienceMs, false);
    });
    socket.on("close", () => done(true));
    socket.write(bytes, "latin1");
  });
}

interface Ran {
  readonly id: string;
  readonly probed: Probed;
  readonly provider: RecordingProvider;
}

function failureOf({ expected }: Attempt, { id, probed: { text, isClosed }, provider }: Ran): string | undefined {
  const arrived = provider.connections.flatMap(({ requests }) => requests());
  const own = arrived.filter(({ line }) => line.includes(`/${id}`));
  const second = arrived.filter(({ line }) => line.includes(`/hidden-${id}`));
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  if (expected !== "either" && expected !== "refused") {
    if (second.length !== (expected.alsoSecond === true ? 1 : 0)) return `${second.length} second requests`;
    if (own.length !== 1) return `${own.length} requests instead of one`;
    if (!isBody(own[0]?.body ?? "", expected.body)) return `another body: ${JSON.stringify(own[0]?.body)}`;
    return statuses[0] === 200 ? undefined : "not answered";
  }
  if (second.length > 0) return "a second request";
  if (expected === "either" && own.length === 1 && statuses[0] === 200) return undefined;
  if (own.length > 0) return "it reached the provider";
  if (statuses.length !== 1 || statuses.some((status) => status < 400)) return `answered with ${statuses.join()}`;
  return isClosed ? undefined : "the connection was kept";
}

const isBody = (body: string, expected: string | RegExp) =>
  typeof expected === "string" ? body === expected : expected.test(body);

export async function troubleOf({ metric, logged }: ProxiedSidecar): Promise<string[]> {
  const unhandled = (await metric("latchkey_unhandled_errors_total")) ?? 0;
  const errors = logged.filter((line) => line.includes('"level":"error"'));
  return unhandled > 0 || errors.length > 0 ? [`unhandled: ${unhandled}, ${errors.join()}`] : [];
}
