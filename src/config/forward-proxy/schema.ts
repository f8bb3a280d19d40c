import * as v from "valibot";

const tunnelHost = v.pipe(
  v.string(),
  v.regex(
    /^(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[1-9][0-9]{0,4})?$/,
    "must be a host in lower case such as pypi.org, *.example.com or pypi.org:8443",
  ),
);

/** The schema of `forward_proxy` in the configuration file. */
export const forwardProxySchema = v.strictObject({
  tunnel: v.optional(
    v.pipe(
      v.array(tunnelHost),
      v.maxLength(1_000),
      v.description("Hosts that the forward proxy passes on without looking inside. All others are refused."),
    ),
  ),
});
