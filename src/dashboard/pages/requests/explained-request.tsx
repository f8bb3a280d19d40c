import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Notice } from "../../components/states.tsx";
import { useLoad } from "../../data/load.ts";
import { connections } from "../../state/clients.ts";
import type { TriedConnection } from "./tried-connection.ts";

interface ExplainedRequestProps {
  readonly connection: TriedConnection;
  readonly method: string;
  readonly path: string;
  readonly headerNames: readonly string[];
}

const settleMs = 300;

/** What Latchkey would make of the request: where it goes, what is added and what is left out. */
export function ExplainedRequest({ connection, method, path, headerNames }: ExplainedRequestProps) {
  const wanted = JSON.stringify([connection, method, path, headerNames]);
  const settled = useSignal(wanted);
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = wanted;
    }, settleMs);
    return () => clearTimeout(timer);
  }, [wanted]);
  const { value, fault } = useLoad(
    (signal) =>
      connections.explainRequest({ ref: connection, method, path, headerNames: [...headerNames] }, { signal }),
    [settled.value],
  );
  if (fault !== undefined) return <Notice tone="warn">{fault.message}</Notice>;
  if (value === undefined) return <p class="explained quiet"> </p>;
  if (value.problem !== undefined) {
    return (
      <Notice tone="warn">
        This would be refused: {value.problem.message} (<code>{value.problem.code}</code>)
      </Notice>
    );
  }
  return (
    <div class="explained">
      <p>
        Goes to <code>{value.url}</code>
      </p>
      {value.injected.length > 0 && (
        <p>
          Latchkey adds <Names names={value.injected} /> from the connection’s credentials ({value.credentialsKind}).
        </p>
      )}
      {value.dropped.length > 0 && (
        <p>
          Not sent on: <Names names={value.dropped} />
        </p>
      )}
    </div>
  );
}

const Names = ({ names }: { readonly names: readonly string[] }) => (
  <>
    {names.map((name, i) => (
      <span key={name}>
        {i > 0 && ", "}
        <code>{name}</code>
      </span>
    ))}
  </>
);
