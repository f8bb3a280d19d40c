import * as v from "valibot";

/** The schema of a listener's certificate. */
export const tls = v.pipe(
  v.strictObject({
    cert: v.string(),
    key: v.string(),
    client_ca: v.optional(v.string()),
    client_names: v.optional(v.array(v.string())),
    client_optional: v.optional(v.boolean()),
  }),
  v.description(
    "PEM files of a listener. With client_ca, callers must present a certificate; client_names limits its names. With client_optional, callers without one are accepted too.",
  ),
);
