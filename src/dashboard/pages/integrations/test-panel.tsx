import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Facts } from "../../components/page.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { linkTo, pathOf } from "../../state/router.ts";
import type { ConnectTest } from "./connect-test.ts";

/** The button that starts a test. */
export const TestButton = ({ test, isPrimary }: { readonly test: ConnectTest; readonly isPrimary: boolean }) => (
  <Button
    kind={isPrimary ? "primary" : "plain"}
    onClick={test.start}
    isBusy={test.state === "starting"}
    needs={Scope.CONNECTIONS_WRITE}
    title="Connect an account of your own in a second window"
  >
    Test
  </Button>
);

/** How the test goes, and its result. */
export function TestPanel({ test }: { readonly test: ConnectTest }) {
  const { state, fault, connection, failure, link } = test;
  if (fault !== undefined) return <FaultNotice fault={fault} retry={test.start} />;
  if (state === "idle" || state === "starting") return null;
  return (
    <section class="card test-panel" aria-label="Test" aria-live="polite">
      {state === "waiting" && (
        <>
          <div class="beside">
            <Badge tone="info">Waiting</Badge>
            <p>
              {link === "" ? (
                "Connect an account of your own in the window that has opened. The result appears here."
              ) : (
                <>
                  Your browser did not open the window.{" "}
                  <a href={link} target="_blank" rel="noreferrer">
                    Open the connect page
                  </a>
                </>
              )}
            </p>
            <Button isSmall onClick={test.stop}>
              Stop
            </Button>
          </div>
          {failure !== undefined && (
            <p class="bad-text">
              The last attempt failed: {failure.message}.{" "}
              <a href={linkTo(pathOf("logs", failure.logId))}>Show the log</a>
            </p>
          )}
        </>
      )}
      {state === "expired" && (
        <div class="beside">
          <Badge tone="warn">No connection</Badge>
          <p>The link has ended without a connection.</p>
        </div>
      )}
      {connection !== undefined && <TestResult connection={connection} />}
    </section>
  );
}

function TestResult({ connection }: { readonly connection: Connection }) {
  const { ref, grantedScopes, missingScopes, credentialsExpireAt } = connection;
  const link = linkTo(pathOf("connections", ref?.integration ?? "", ref?.id ?? ""));
  return (
    <>
      <div class="beside">
        <Badge tone={missingScopes.length === 0 ? "good" : "warn"}>Connected</Badge>
        <p>
          It works: <a href={link}>{ref?.id}</a>
        </p>
      </div>
      <Facts
        rows={[
          ["Granted scopes", grantedScopes.join(" ")],
          ["Not granted", missingScopes.length > 0 && <span class="bad-text">{missingScopes.join(" ")}</span>],
          ["Credentials end", credentialsExpireAt !== undefined && <Time at={credentialsExpireAt} />],
        ]}
      />
      <p class="quiet">It is an ordinary connection of this environment. Delete it when you no longer need it.</p>
    </>
  );
}
