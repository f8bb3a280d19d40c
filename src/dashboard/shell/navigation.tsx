import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Icon, type IconName } from "../components/icon.tsx";
import { environmentName, knownEnvironments } from "../state/environment.ts";
import { matchPath } from "../state/page-route.ts";
import { address, linkTo, setQuery } from "../state/router.ts";
import { caller, signOut } from "../state/session.ts";
import { isHelpOpen } from "../state/shortcuts.ts";
import { type ColorTheme, theme } from "../state/theme.ts";
import { routes } from "./routes.ts";

interface NavigationEntry {
  readonly path: string;
  readonly name: string;
  readonly icon: IconName;
  /** Further pages of the same subject. */
  readonly also?: readonly string[];
}

const groups: readonly (readonly [title: string, entries: readonly NavigationEntry[]])[] = [
  [
    "",
    [
      { path: "/", name: "Overview", icon: "overview" },
      {
        path: "/integrations",
        name: "Integrations",
        icon: "integrations",
        also: ["/catalog", "/providers", "/custom-provider", "/mcp-server"],
      },
      { path: "/connections", name: "Connections", icon: "connections" },
      { path: "/connect", name: "Connect", icon: "connect" },
    ],
  ],
  [
    "Events",
    [
      { path: "/webhooks", name: "Webhooks", icon: "webhooks" },
      { path: "/destinations", name: "Destinations", icon: "destinations" },
      { path: "/channels", name: "Channels", icon: "channels" },
      { path: "/scripts", name: "Scripts and syncs", icon: "scripts" },
      { path: "/runs", name: "Runs", icon: "play" },
    ],
  ],
  [
    "Access",
    [
      { path: "/access-sessions", name: "Access sessions", icon: "sessions" },
      { path: "/approvals", name: "Approvals", icon: "approvals" },
    ],
  ],
  [
    "Insight",
    [
      { path: "/requests", name: "Requests", icon: "requests" },
      { path: "/logs", name: "Logs", icon: "logs" },
      { path: "/audit", name: "Audit", icon: "audit" },
    ],
  ],
  [
    "Settings",
    [
      { path: "/branding", name: "Branding", icon: "branding" },
      { path: "/environments", name: "Environments & keys", icon: "environments" },
      { path: "/system", name: "System", icon: "system" },
    ],
  ],
];

const isBuilt = (path: string) => routes.some((route) => matchPath(route.path, path) !== undefined);
const isWithin = (path: string, entry: string) =>
  entry === "/" ? path === "/" : path === entry || path.startsWith(`${entry}/`);

export function Navigation() {
  const isOpen = useSignal(false);
  const { path } = address.value;
  useEffect(() => {
    isOpen.value = false;
  }, [path]);
  return (
    <header class={isOpen.value ? "side open" : "side"}>
      <div class="side-head">
        <a class="brand" href={linkTo("/")}>
          <KeyMark />
          Latchkey
        </a>
        <button
          type="button"
          class="icon-button menu-button"
          aria-label="Menu"
          aria-expanded={isOpen.value}
          onClick={() => (isOpen.value = !isOpen.value)}
        >
          <Icon name="menu" />
        </button>
      </div>
      <div class="side-body">
        <EnvironmentChoice />
        <nav aria-label="Pages">
          {groups.map(([title, entries]) => (
            <NavigationGroup key={title} title={title} entries={entries} path={path} />
          ))}
        </nav>
        <SideFoot />
      </div>
    </header>
  );
}

interface NavigationGroupProps {
  readonly title: string;
  readonly entries: readonly NavigationEntry[];
  readonly path: string;
}

function NavigationGroup({ title, entries, path }: NavigationGroupProps) {
  const built = entries.filter((entry) => isBuilt(entry.path));
  if (built.length === 0) return null;
  return (
    <>
      {title !== "" && <p class="nav-title">{title}</p>}
      <ul>
        {built.map((entry) => (
          <li key={entry.path}>
            <a
              href={linkTo(entry.path)}
              aria-current={[entry.path, ...(entry.also ?? [])].some((one) => isWithin(path, one)) ? "page" : undefined}
            >
              <Icon name={entry.icon} />
              {entry.name}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The choice among environments; a key of one environment only sees its name. */
function EnvironmentChoice() {
  const names = knownEnvironments.value.map(({ name }) => name);
  const current = environmentName.value;
  if (names.length < 2) return <p class="environment-name">{current}</p>;
  return (
    <select
      class="environment-choice"
      aria-label="Environment"
      value={current}
      onChange={(event) => setQuery({ env: event.currentTarget.value }, { push: true })}
    >
      {names.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}

const nextTheme: Readonly<Record<ColorTheme, ColorTheme>> = { system: "light", light: "dark", dark: "system" };

const SideFoot = () => (
  <div class="side-foot">
    <p class="who" title={`Latchkey ${caller.value?.version ?? ""}`}>
      {caller.value?.person || caller.value?.keyId}
    </p>
    <div class="side-tools">
      <button
        type="button"
        class="icon-button"
        title={`Theme: ${theme.value}`}
        aria-label={`Theme: ${theme.value}. Change it.`}
        onClick={() => (theme.value = nextTheme[theme.value])}
      >
        <Icon name="theme" />
      </button>
      <button
        type="button"
        class="icon-button"
        title="Keyboard shortcuts (?)"
        aria-label="Keyboard shortcuts"
        onClick={() => (isHelpOpen.value = true)}
      >
        ?
      </button>
      <button type="button" class="text-button" onClick={() => void signOut()}>
        Sign out
      </button>
    </div>
  </div>
);

const KeyMark = () => (
  <svg viewBox="0 0 32 32" class="key-mark" aria-hidden="true">
    <rect width="32" height="32" rx="8" />
    <circle cx="12.5" cy="13" r="4.75" />
    <path d="M16 16.5 24 24.5M20.5 21l2.75-2.75" />
  </svg>
);
