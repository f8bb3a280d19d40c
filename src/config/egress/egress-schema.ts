import * as v from "valibot";

const pemFile = (content: string) => v.optional(v.pipe(v.string(), v.description(`PEM file of ${content}.`)));

/** The part `egress` of the configuration file. `secret` is the schema of a reference to a secret. */
export const egressSchema = <S extends v.GenericSchema>(secret: S) =>
  v.pipe(
    v.strictObject({
      proxy: v.optional(
        v.pipe(v.string(), v.description("URL of the proxy: http://host:port or https://host:port, or off.")),
      ),
      auth: v.optional(secret),
      no_proxy: v.optional(
        v.pipe(
          v.array(v.string()),
          v.description("Hosts that are dialed directly: names, .endings, addresses and networks, also with :port."),
        ),
      ),
      resolve: v.optional(
        v.pipe(
          v.picklist(["local", "pinned", "proxy"]),
          v.description("Who resolves names: Latchkey, Latchkey alone (the proxy gets the address), or the proxy."),
        ),
      ),
      ca: pemFile("additional certificate authorities for an https proxy"),
      intercept_ca: pemFile("the authorities with which the proxy opens TLS to read it"),
      client_cert: pemFile("the certificate that an https proxy is shown"),
      client_key: pemFile("its private key"),
    }),
    v.description("HTTP proxy for everything that leaves. auth refers to user:password."),
  );
