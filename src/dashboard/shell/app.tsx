import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { FaultNotice, Skeleton } from "../components/states.tsx";
import { SignInPage } from "../pages/sign-in/sign-in-page.tsx";
import { environments } from "../state/clients.ts";
import { loadEnvironments } from "../state/environment.ts";
import { type CallFault, faultOf } from "../state/fault.ts";
import { matchPath, type PageProps, type PageRoute, type PathValues } from "../state/page-route.ts";
import { address, linkTo, navigate, queryValue } from "../state/router.ts";
import { caller, hasSession, mayReadEnvironments, signInLink } from "../state/session.ts";
import { isHelpOpen } from "../state/shortcuts.ts";
import { Help } from "./help.tsx";
import { KeyDialog } from "./key-dialog.tsx";
import { Messages } from "./messages.tsx";
import { Navigation } from "./navigation.tsx";
import { routes } from "./routes.ts";

/** Everything on the screen: the sign-in page, or the navigation with the page of the address. */
export function App() {
  const fault = useSignal<CallFault | undefined>(undefined);
  const isSignedIn = hasSession.value;
  useEffect(() => {
    fault.value = undefined;
    if (isSignedIn) void begin().then((found) => (fault.value = hasSession.peek() ? found : undefined));
  }, [isSignedIn]);
  const chosen = queryValue("env");
  useEffect(() => {
    // What a person may do differs by environment.
    const known = caller.peek();
    if (isSignedIn && known?.person && chosen !== "" && chosen !== known.environment) void begin();
  }, [chosen]);
  if (!isSignedIn || caller.value === null || signInLink.value !== undefined) return <SignInPage />;
  if (fault.value !== undefined) {
    return (
      <main class="alone">
        <FaultNotice fault={fault.value} retry={() => void begin().then((found) => (fault.value = found))} />
      </main>
    );
  }
  if (caller.value === undefined) return null;
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the page
      </a>
      <Navigation />
      <main id="content" tabIndex={-1}>
        <CurrentPage />
      </main>
      <Messages />
      {isHelpOpen.value && <Help />}
      <KeyDialog />
    </div>
  );
}

/** Reads who is signed in. Returns why that failed. */
async function begin(): Promise<CallFault | undefined> {
  try {
    const found = await environments.getCaller({});
    caller.value = found;
    if (mayReadEnvironments()) await loadEnvironments();
    if (address.value.path === "/sign-in") navigate(linkTo("/"));
    return undefined;
  } catch (error) {
    const fault = faultOf(error);
    return fault;
  }
}

function currentRoute(path: string): readonly [PageRoute, PathValues] | undefined {
  for (const route of routes) {
    const values = matchPath(route.path, path);
    if (values !== undefined) return [route, values];
  }
  return undefined;
}

const loaded = new Map<string, ComponentType<PageProps>>();

function CurrentPage() {
  const { path } = address.value;
  const found = currentRoute(path);
  const fault = useSignal<CallFault | undefined>(undefined);
  const round = useSignal(0);
  const route = found?.[0];
  useEffect(() => {
    document.title = route === undefined ? "Latchkey" : `${route.title} · Latchkey`;
    fault.value = undefined;
    if (route === undefined || loaded.has(route.path)) return;
    let isOver = false;
    route.load().then(
      (page) => {
        loaded.set(route.path, page);
        if (!isOver) round.value += 1;
      },
      (error: unknown) => {
        if (!isOver) fault.value = faultOf(error);
      },
    );
    return () => {
      isOver = true;
    };
  }, [route]);
  // Read, so that the page is shown when its code is here.
  void round.value;
  if (found === undefined) return <NotFound />;
  if (fault.value !== undefined) return <FaultNotice fault={fault.value} retry={() => window.location.reload()} />;
  const Page = loaded.get(found[0].path);
  return Page === undefined ? <Skeleton /> : <Page key={path} values={found[1]} />;
}

const NotFound = () => (
  <div class="empty">
    <h1>There is no such page</h1>
    <p>Check the address, or choose a page of the navigation.</p>
  </div>
);
