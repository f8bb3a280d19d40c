import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { PageFrame } from "../../components/page.tsx";
import { Empty, FaultNotice } from "../../components/states.tsx";
import { useLoad } from "../../data/load.ts";
import { connections, integrations } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { TryRequest } from "./try-request.tsx";

const settleMs = 250;

/** A request through the proxy with the credentials of any connection. */
export function TryPage() {
  const environment = environmentName.value;
  const integration = queryValue("integration");
  const id = queryValue("connection");
  const known = useLoad(
    async (signal) => (await integrations.listIntegrations({ environment, pageSize: 200 }, { signal })).integrations,
    [environment],
  );
  const keys = known.value?.map(({ key }) => key) ?? [];
  return (
    <PageFrame
      title="Try a request"
      above={[["Requests", linkTo("/requests")]]}
      lead="Sends a real request to the provider with the credentials of a connection, and leaves an audit event."
    >
      {known.fault !== undefined && <FaultNotice fault={known.fault} retry={known.reload} />}
      {known.value?.length === 0 ? (
        <Empty title="There is no integration yet">
          <p>
            <a href={linkTo("/integrations")}>Create an integration</a> and connect an account first.
          </p>
        </Empty>
      ) : (
        <>
          <div class="try-target">
            <label class="field">
              <span>Integration</span>
              <select
                value={integration}
                onChange={(event) => setQuery({ integration: event.currentTarget.value, connection: undefined })}
              >
                <option value="">Choose one</option>
                {[...new Set([...keys, ...(integration === "" ? [] : [integration])])].map((key) => (
                  <option key={key}>{key}</option>
                ))}
              </select>
            </label>
            <ConnectionChoice
              key={`${environment}/${integration}`}
              environment={environment}
              integration={integration}
            />
          </div>
          {integration !== "" && id !== "" && (
            <TryRequest
              key={`${environment}/${integration}/${id}`}
              connection={{ environment, integration, id }}
              method={queryValue("method")}
              path={queryValue("path") || "/"}
              isInAddress
            />
          )}
        </>
      )}
    </PageFrame>
  );
}

interface ConnectionChoiceProps {
  readonly environment: string;
  readonly integration: string;
}

/** Suggests connections as the person writes: there may be a million. */
function ConnectionChoice({ environment, integration }: ConnectionChoiceProps) {
  const text = useSignal(queryValue("connection"));
  const settled = useSignal(text.value);
  const listId = useId();
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = text.value;
      setQuery({ connection: text.value });
    }, settleMs);
    return () => clearTimeout(timer);
  }, [text.value]);
  const found = useLoad(
    async (signal) => {
      if (integration === "") return [];
      const filter = { integrations: [integration], idPrefix: settled.value };
      const page = await connections.listConnections({ environment, filter, pageSize: 20 }, { signal });
      return page.connections;
    },
    [environment, integration, settled.value],
  );
  // With one connection there is nothing to choose.
  const [only, second] = found.value ?? [];
  useEffect(() => {
    if (text.peek() === "" && only !== undefined && second === undefined) text.value = only.ref?.id ?? "";
  }, [only, second]);
  return (
    <label class="field">
      <span>Connection</span>
      <input
        type="text"
        list={listId}
        value={text.value}
        disabled={integration === ""}
        placeholder={integration === "" ? "Choose an integration first" : "ID of the connection"}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
      <datalist id={listId}>
        {(found.value ?? []).map(({ ref }) => (
          <option key={ref?.id} value={ref?.id} />
        ))}
      </datalist>
    </label>
  );
}
