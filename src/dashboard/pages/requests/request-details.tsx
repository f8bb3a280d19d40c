import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { RecentRequest } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { bytesText, durationText } from "../../data/format.ts";
import { linkTo, navigate } from "../../state/router.ts";
import { ConnectionLink, pathText, RequestStatus } from "./request-names.tsx";
import { snippetOf } from "./snippets.ts";

interface RequestDetailsProps {
  readonly request: RecentRequest;
  readonly onClose: () => void;
}

/** Everything that is kept of a request. */
export function RequestDetails({ request, onClose }: RequestDetailsProps) {
  const { method, path, connection, totalMs, addedMs, attempts, bytesUp, bytesDown, keyId, traceId, tunnel } = request;
  const integration = connection?.integration ?? "";
  const id = connection?.id ?? "";
  // A path that was masked or cut is not the path that was sent.
  const isWhole = !path.includes("***") && !path.endsWith("…");
  const curl = snippetOf("curl", { integration, connection: id, method, path, headers: [], body: "" });
  return (
    <Dialog
      title={`${method} ${path}`}
      isDrawer
      onClose={onClose}
      actions={
        isWhole &&
        !tunnel && (
          <Button
            needs={Scope.PROXY}
            onClick={() => navigate(linkTo("/requests/try", { integration, connection: id, method, path }))}
          >
            Try it again
          </Button>
        )
      }
    >
      {request.errorCode !== "" && (
        <Notice tone="bad">
          Latchkey answered, not the provider: <code>{request.errorCode}</code>.
        </Notice>
      )}
      <TimingBar request={request} />
      <Facts
        rows={[
          ["Status", <RequestStatus request={request} />],
          ["Path", <code>{pathText(request)}</code>],
          ["Connection", <ConnectionLink connection={connection} />],
          ["When", <Time at={request.at} />],
          ["Took", durationText(totalMs)],
          ["Of which Latchkey", attempts === 0 ? "It was not sent to the provider" : durationText(addedMs)],
          ["Attempts", attempts > 1 && String(attempts)],
          ["Sent", bytesUp > 0n && bytesText(bytesUp)],
          ["Received", bytesText(bytesDown)],
          ["Key", <a href={linkTo("/requests", { key: keyId })}>{keyId}</a>],
          ["Trace", traceId !== "" && <code>{traceId}</code>],
        ]}
      />
      <h3>The same with curl</h3>
      <Code text={curl} label="curl command" />
      <p class="quiet">
        Put a key of the environment in place of YOUR_KEY. Queries, headers and bodies are not kept: they may hold
        secrets.
      </p>
    </Dialog>
  );
}

/** The part of the time until Latchkey had sent the request, and the rest. */
function TimingBar({ request: { totalMs, addedMs } }: { readonly request: RecentRequest }) {
  const part = totalMs === 0 ? 0 : Math.min(100, Math.max(1, (addedMs / totalMs) * 100));
  const label = `Latchkey ${durationText(addedMs)}, provider and transfer ${durationText(totalMs - addedMs)}`;
  return (
    <figure class="timing">
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={label}>
        <rect class="timing-rest" width="100" height="4" />
        <rect class="timing-own" width={part} height="4" />
      </svg>
      <figcaption>{label}</figcaption>
    </figure>
  );
}
