import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";

/** Whether the rules name an endpoint for tokens, or metadata that may name one. */
export const hasOAuth2Endpoint = ({ tokenUrl, refreshUrl, metadataUrl }: OAuth2Rules): boolean =>
  tokenUrl !== "" || refreshUrl !== "" || metadataUrl !== "";
