import { integrations } from "../state/clients.ts";
import { environmentName } from "../state/environment.ts";
import { useLoad } from "./load.ts";

const mostNames = 1_000;

/** The keys of the environment's integrations, for filters and choices; empty while they are unknown. */
export function useIntegrationNames(): readonly string[] {
  const environment = environmentName.value;
  const { value = [] } = useLoad(
    async (signal) => {
      const names: string[] = [];
      let pageToken = "";
      do {
        const page = await integrations.listIntegrations({ environment, pageSize: 200, pageToken }, { signal });
        names.push(...page.integrations.map(({ key }) => key));
        pageToken = page.nextPageToken;
      } while (pageToken !== "" && names.length < mostNames);
      return names;
    },
    [environment],
  );
  return value;
}
