import { type Signal, useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Key } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Confirm } from "../../components/confirm.tsx";
import { FilterBar, SelectFilter } from "../../components/filters.tsx";
import { Empty, Notice } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { usePager } from "../../data/pager.ts";
import { environments } from "../../state/clients.ts";
import { knownEnvironments } from "../../state/environment.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { caller, may } from "../../state/session.ts";
import { CreateKeyDialog } from "./create-key-dialog.tsx";
import { KeyDrawer } from "./key-drawer.tsx";
import { KeyState } from "./key-state.tsx";
import { RotateKeyDialog } from "./rotate-key-dialog.tsx";
import { scopesText } from "./scopes.ts";

/** The dialog that is open about a key. */
interface OpenQuestion {
  readonly kind: "rotate" | "revoke";
  readonly key: Key;
}

/** The keys of all environments, or of one. */
export function KeyList({ isCreating }: { readonly isCreating: Signal<boolean> }) {
  if (!may(Scope.ADMIN)) {
    return (
      <Notice>
        You are signed in with the key {caller.value?.keyId}. Keys are shown to control keys, which have the scope
        admin.
      </Notice>
    );
  }
  return <AllKeys isCreating={isCreating} />;
}

function AllKeys({ isCreating }: { readonly isCreating: Signal<boolean> }) {
  const question = useSignal<OpenQuestion | undefined>(undefined);
  const of = queryValue("of");
  const pager = usePager(
    async (pageToken, signal) => {
      const page = await environments.listKeys({ environment: of, pageToken, pageSize: 100 }, { signal });
      return { items: page.keys, nextPageToken: page.nextPageToken };
    },
    [of],
  );
  const close = () => (question.value = undefined);
  const ask = (kind: OpenQuestion["kind"], key: Key) => {
    setQuery({ key: "" });
    question.value = { kind, key };
  };
  const opened = (pager.items ?? []).find(({ id }) => id === queryValue("key"));
  return (
    <>
      <FilterBar>
        <SelectFilter
          name="of"
          label="Environment"
          options={knownEnvironments.value.map(({ name }) => [name, name] as const)}
        />
      </FilterBar>
      <PagedTable
        label="Keys"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo("/environments", { tab: "keys", of, key: id })}
        empty={
          <Empty title="No keys">
            <p>Create a key for each service that calls Latchkey, with only the scopes that it needs.</p>
          </Empty>
        }
      />
      {opened !== undefined && question.value === undefined && (
        <KeyDrawer of={opened} ask={ask} onClose={() => setQuery({ key: "" })} />
      )}
      {isCreating.value && (
        <CreateKeyDialog environment={of} onMade={pager.reload} onClose={() => (isCreating.value = false)} />
      )}
      {question.value?.kind === "rotate" && (
        <RotateKeyDialog of={question.value.key} onMade={pager.reload} onClose={close} />
      )}
      {question.value?.kind === "revoke" && (
        <RevokeQuestion
          of={question.value.key}
          onClose={close}
          onDone={() => {
            setQuery({ key: "" });
            pager.reload();
          }}
        />
      )}
    </>
  );
}

interface RevokeQuestionProps {
  readonly of: Key;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const RevokeQuestion = ({ of: { id, revision, lastUsedAt }, onClose, onDone }: RevokeQuestionProps) => (
  <Confirm
    title={`Revoke the key ${id}?`}
    verb="Revoke key"
    isDanger
    typed={id}
    done={`Revoked the key ${id}.`}
    onClose={onClose}
    act={async () => {
      await environments.revokeKey({ id, expectedRevision: lastUsedAt === undefined ? revision : 0n });
      onDone();
    }}
  >
    <p>
      Callers that use it are refused within a second, on every replica. This cannot be undone.{" "}
      {lastUsedAt === undefined ? (
        "The key was never used."
      ) : (
        <>
          It was last used <Time at={lastUsedAt} />.
        </>
      )}
    </p>
  </Confirm>
);

const columns: readonly TableColumn<Key>[] = [
  { name: "Key", show: ({ id }) => <span class="key-name">{id}</span> },
  { name: "State", show: (key) => <KeyState of={key} /> },
  {
    name: "Environment",
    show: ({ environment }) => (environment === "" ? <span class="quiet">all</span> : environment),
  },
  { name: "May do", show: ({ scopes }) => scopesText(scopes), isMinor: true },
  { name: "Last used", show: ({ lastUsedAt }) => <Time at={lastUsedAt} none="never" /> },
  {
    name: "Created",
    show: ({ createdAt, createdBy }) =>
      createdAt === undefined ? (
        <span class="quiet">–</span>
      ) : (
        <>
          <Time at={createdAt} />
          {createdBy !== "" && <span class="quiet"> by {createdBy}</span>}
        </>
      ),
    isMinor: true,
  },
];
