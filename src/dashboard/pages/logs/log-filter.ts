/** The filters of the list of logs, from the address. */
import { environmentName } from "../../state/environment.ts";
import { queryValue } from "../../state/router.ts";

/** An ID of a log, as errors show it. */
const logId = /^[0-9a-z]{21}$/;

/** Reads the filters that both the list and the live view have. */
export function logFilter() {
  const text = queryValue("q").trim();
  const integration = queryValue("integration");
  return {
    environment: environmentName.value,
    text: logId.test(text) ? "" : text,
    level: queryValue("level"),
    operation: queryValue("kind"),
    failed: queryValue("failed") !== "",
    integration,
    connectionId: integration === "" ? "" : queryValue("connection"),
  };
}

export const searchedLogId = (): string => {
  const text = queryValue("q").trim();
  return logId.test(text) ? text : "";
};
