import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Key } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button, scopeName } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { linkTo, pathOf } from "../../state/router.ts";
import { KeyState } from "./key-state.tsx";
import { environmentScopes, furtherScopes } from "./scopes.ts";

interface KeyDrawerProps {
  readonly of: Key;
  readonly ask: (kind: "rotate" | "revoke", key: Key) => void;
  readonly onClose: () => void;
}

/** One key: what it may do, who made it, when it was used. */
export const KeyDrawer = ({ of: key, ask, onClose }: KeyDrawerProps) => (
  <Dialog
    title={key.id}
    isDrawer
    onClose={onClose}
    actions={
      key.declared ? undefined : (
        <>
          <Button kind="danger" needs={Scope.ADMIN} onClick={() => ask("revoke", key)}>
            Revoke
          </Button>
          <Button needs={Scope.ADMIN} onClick={() => ask("rotate", key)}>
            Rotate
          </Button>
        </>
      )
    }
  >
    <Facts
      rows={[
        ["State", <KeyState key="state" of={key} />],
        [
          "Environment",
          key.environment === "" ? (
            "all"
          ) : (
            <a key="env" href={linkTo(pathOf("environments", key.environment), { env: key.environment })}>
              {key.environment}
            </a>
          ),
        ],
        ["Last used", <Time key="used" at={key.lastUsedAt} none="never" />],
        ["Created", key.createdAt && <Time key="created" at={key.createdAt} />],
        ["Created by", key.createdBy],
        ["Rotated from", key.replaces],
        ["Ends", key.expiresAt && <Time key="ends" at={key.expiresAt} />],
      ]}
    />
    {key.declared && <Notice>The configuration sets this key. Change it there.</Notice>}
    <Table label="Scopes" columns={columns(key)} rows={rowsOf(key)} keyOf={([scope]) => String(scope)} />
    <p>
      <a href={linkTo("/audit", { actor: key.id, everywhere: "1" })}>Changes that this key made</a>
    </p>
  </Dialog>
);

type ScopeRow = readonly [scope: Scope, meaning: string];

const rowsOf = ({ environment }: Key): readonly ScopeRow[] =>
  environment === ""
    ? [...environmentScopes, [Scope.ADMIN, "Manage environments, keys, providers and the store."]]
    : [...environmentScopes, ...furtherScopes];

const columns = ({ scopes }: Key): readonly TableColumn<ScopeRow>[] => [
  { name: "Scope", show: ([scope]) => <code>{scopeName(scope)}</code> },
  { name: "Allows", show: ([, meaning]) => <span class="quiet">{meaning}</span>, isMinor: true },
  {
    name: "Has it",
    show: ([scope]) =>
      scopes.includes(scope) || scopes.includes(Scope.ADMIN) ? (
        <Badge tone="good">Yes</Badge>
      ) : (
        <Badge tone="quiet">No</Badge>
      ),
  },
];
