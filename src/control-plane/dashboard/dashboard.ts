import { Fault } from "../../base/fault.ts";
import { errorBody } from "../../base/http/error-body.ts";
import type { World } from "../../base/world.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { NodeRequest } from "../server/calls.ts";
import type { DashboardSignIn } from "../server/port-pages.ts";
import type { NodeResponse } from "../server/slow-readers.ts";
import { createSignInCookies } from "./cookies.ts";
import { readPageFile } from "./files.ts";
import { dashboardFolder } from "./folder.ts";
import { missingPage } from "./missing-page.ts";
import type { OidcRoutes } from "./oidc.ts";
import { pageHeaders } from "./page-headers.ts";
import { type BrowserRequest, browserRequestOf, type PageResponse } from "./request.ts";
import { createSessionRoutes, type SessionRoutes } from "./session-routes.ts";

interface DashboardOptions {
  readonly world: World;
  /** The listener itself speaks TLS. */
  readonly isTls?: boolean;
  /** Undefined while the store is being opened. */
  readonly opened?: () => DashboardSignIn | undefined;
  /** Where the built files are. */
  readonly folder?: string | undefined;
}

/** Answers requests for `/`, `/ui` and everything below it. */
export type Dashboard = (request: NodeRequest, response: NodeResponse) => void;

export function createDashboard(options: DashboardOptions): Dashboard {
  const { world, isTls = false, opened = () => undefined, folder = dashboardFolder() } = options;
  const cookies = createSignInCookies(isTls);
  let sessions: SessionRoutes | undefined;
  let oidc: Promise<OidcRoutes> | undefined;

  function signIn(): DashboardSignIn {
    const found = opened();
    if (found === undefined) throw new Fault("not_ready", "Latchkey is starting", { retryAfterSeconds: 1 });
    return found;
  }

  function sessionRoutes(): SessionRoutes {
    const { broker, identityProvider } = signIn();
    const name = identityProvider && new URL(identityProvider.issuer).host;
    sessions ??= createSessionRoutes({ broker, cookies, identityProvider: name });
    return sessions;
  }

  async function oidcAnswer(request: BrowserRequest): Promise<PageResponse> {
    const { broker, identityProvider, send } = signIn();
    if (identityProvider === undefined) throw new Fault("not_found", "no identity provider is configured");
    oidc ??= import("./oidc.ts").then(({ createOidcRoutes }) =>
      createOidcRoutes({ broker, provider: identityProvider, send, cookies, world }),
    );
    const routes = await oidc;
    const isCallback = request.path === "/ui/oidc/callback";
    requireMethod(request, isCallback ? ["GET"] : ["POST"]);
    return isCallback ? routes.callback(request) : routes.start(request);
  }

  async function answerOf(request: NodeRequest): Promise<PageResponse> {
    const route = browserRequestOf(request);
    const { path } = route;
    if (path === "/ui/session") return sessionRoutes()(route);
    if (path === "/ui/oidc/start" || path === "/ui/oidc/callback") return oidcAnswer(route);
    requireMethod(route, ["GET", "HEAD"]);
    if (path === "/" || path === "/ui")
      return { status: 307, headers: { location: "/ui/", "cache-control": "no-store" } };
    const name = path.slice("/ui/".length);
    const accepted = route.headers.get("accept-encoding") ?? "";
    const isFile = fileForm.test(name);
    const file = await readPageFile({ folder, name: isFile ? name : "index.html", accepted });
    if (file !== undefined) return { status: 200, ...file };
    if (isFile) throw new Fault("not_found", "there is no such file");
    return notBuilt;
  }

  async function answer(request: NodeRequest, response: NodeResponse): Promise<void> {
    try {
      send(request, response, await answerOf(request));
    } catch (error) {
      const fault = faultOfStore(error);
      if (fault.code === "internal") {
        world.metrics.unhandled.inc();
        world.log.error("a page could not be served", { err: fault.cause });
      }
      send(request, response, answerOfFault(fault));
    }
  }

  return (request, response) => {
    answer(request, response).catch((err: unknown) => {
      world.log.error("a page could not be sent", { err });
      response.destroy();
    });
  };
}

/** Names of files. Other paths are those of pages, whose last part may hold dots: a connection's ID. */
const fileForm = /^assets\/|^[^/]+\.[^/]+$/;

const notBuilt: PageResponse = {
  status: 503,
  headers: { "content-type": "text/html; charset=utf-8", "cache-control": "no-store" },
  bytes: missingPage,
};

const answerOfFault = (fault: Fault): PageResponse => ({
  status: fault.status,
  headers: {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    "latchkey-error": fault.code,
    ...(fault.retryAfterSeconds === undefined ? {} : { "retry-after": String(fault.retryAfterSeconds) }),
    ...(fault.metadata["allow"] === undefined ? {} : { allow: fault.metadata["allow"] }),
  },
  bytes: errorBody(fault),
});

function requireMethod({ method }: BrowserRequest, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  const allow = allowed.join(", ");
  throw new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
}

function send(request: NodeRequest, response: NodeResponse, { status, headers, bytes = "" }: PageResponse): void {
  // Write errors mean that the browser has left.
  response.on("error", () => {});
  for (const [name, value] of Object.entries({ ...pageHeaders, ...headers })) response.setHeader(name, value);
  response.setHeader("content-length", Buffer.byteLength(bytes));
  // A body that was not read: the connection is not used again.
  if (!request.complete && !("stream" in response)) response.setHeader("connection", "close");
  response.statusCode = status;
  if (request.method === "HEAD") response.end();
  else response.end(bytes);
}
