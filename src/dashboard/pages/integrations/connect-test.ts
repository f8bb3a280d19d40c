import { Code, ConnectError } from "@connectrpc/connect";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ConnectSession } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { msOf } from "../../data/format.ts";
import { connections, connectSessions, logs } from "../../state/clients.ts";
import { type CallFault, faultOf } from "../../state/fault.ts";

/** A try of an integration: the person who sets it up connects an own account in a second window. */
export interface ConnectTest {
  readonly state: "idle" | "starting" | "waiting" | "connected" | "expired";
  /** Set if the browser refused the window: the person opens it. */
  readonly link: string;
  readonly connection: Connection | undefined;
  /** The last attempt that failed while the window was open. */
  readonly failure: TestFailure | undefined;
  readonly fault: CallFault | undefined;
  start(): void;
  stop(): void;
}

export interface TestFailure {
  readonly logId: string;
  readonly message: string;
}

const lookAgainMs = 1_000;
const windowFeatures = "popup,width=520,height=760";
/** A tag that finds the connection of a test: connect sessions do not name theirs. */
const tag = "dashboard-test";

export function useConnectTest(environment: string, integration: string): ConnectTest {
  const state = useSignal<ConnectTest["state"]>("idle");
  const link = useSignal("");
  const connection = useSignal<Connection | undefined>(undefined);
  const failure = useSignal<TestFailure | undefined>(undefined);
  const fault = useSignal<CallFault | undefined>(undefined);
  const over = useRef(new AbortController());
  const opened = useRef("");
  useEffect(() => () => over.current.abort(), []);

  async function run(popup: Window | null, signal: AbortSignal): Promise<void> {
    // Without TLS, `randomUUID` exists on this machine's own addresses alone.
    const mark = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(36)).join("");
    const { session, connectLink } = await connectSessions.createConnectSession(
      { environment, endUser: { id: "dashboard" }, allowedIntegrations: [integration], tags: { [tag]: mark } },
      { signal },
    );
    if (session === undefined) throw new Error("the answer holds no session");
    opened.current = session.id;
    // The window is ours until it shows another site: it has to be opened by the click itself.
    if (popup !== null && !popup.closed) popup.location.href = connectLink;
    else link.value = connectLink;
    state.value = "waiting";
    const filter = { integrations: [integration], tags: { [tag]: mark } };
    for (let isOver = false; ; ) {
      await new Promise((resolve) => setTimeout(resolve, lookAgainMs));
      if (signal.aborted) return;
      const page = await connections.listConnections({ environment, filter, pageSize: 1 }, { signal });
      connection.value = page.connections[0];
      if (connection.value !== undefined || isOver) break;
      failure.value = await lastFailure(session, integration, signal);
      isOver = await hasEnded(session, signal);
    }
    state.value = connection.value === undefined ? "expired" : "connected";
  }

  return {
    state: state.value,
    link: link.value,
    connection: connection.value,
    failure: failure.value,
    fault: fault.value,
    start() {
      const popup = window.open("about:blank", "_blank", windowFeatures);
      over.current.abort();
      over.current = new AbortController();
      const { signal } = over.current;
      [link.value, connection.value, failure.value, fault.value] = ["", undefined, undefined, undefined];
      state.value = "starting";
      run(popup, signal).catch((error: unknown) => {
        if (signal.aborted) return;
        popup?.close();
        state.value = "idle";
        fault.value = faultOf(error);
      });
    },
    stop() {
      over.current.abort();
      state.value = "idle";
      // The link is of no further use. If that fails, it ends by itself after half an hour.
      connectSessions.deleteConnectSession({ id: opened.current }).catch(() => {});
    },
  };
}

/** A session ends with its connection, which the next look finds, or after half an hour. */
async function hasEnded({ id }: ConnectSession, signal: AbortSignal): Promise<boolean> {
  try {
    await connectSessions.getConnectSession({ id }, { signal });
    return false;
  } catch (error) {
    if (ConnectError.from(error).code === Code.NotFound) return true;
    throw error;
  }
}

async function lastFailure(
  { environment, createdAt }: ConnectSession,
  integration: string,
  signal: AbortSignal,
): Promise<TestFailure | undefined> {
  const page = await logs.listLogs({ environment, integration, failed: true, pageSize: 1 }, { signal });
  const [log] = page.logs;
  if (log === undefined || (msOf(log.createdAt) ?? 0) < (msOf(createdAt) ?? 0)) return undefined;
  return { logId: log.id, message: log.lines.at(-1)?.message ?? log.operation };
}
