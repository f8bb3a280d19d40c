import type { MessageInitShape } from "@bufbuild/protobuf";
import type { EndUserSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { inBody } from "./body-fields.ts";
import type { ValuesOf } from "./field-shape.ts";

const organizationFields = { id: inBody.requiredText, display_name: inBody.text };

export const organizationField = inBody.object(organizationFields);

/** `end_user`: the application's user who owns a connection. */
export const endUserField = inBody.object({
  id: inBody.requiredText,
  email: inBody.text,
  display_name: inBody.text,
  tags: inBody.textMap,
  organization: organizationField,
});

type EndUserJson = ValuesOf<{ readonly user: typeof endUserField }>["user"];

export function endUserOf(json: EndUserJson): MessageInitShape<typeof EndUserSchema> | undefined {
  if (json === undefined) return undefined;
  const { id, email = "", display_name: displayName = "", tags = {}, organization } = json;
  return {
    id,
    email,
    displayName,
    tags,
    ...(organization !== undefined && { organization: organizationOf(organization) }),
  };
}

export const organizationOf = ({ id, display_name: displayName = "" }: ValuesOf<typeof organizationFields>) => ({
  id,
  displayName,
});
