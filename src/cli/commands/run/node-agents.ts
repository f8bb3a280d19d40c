/**
 * What Node loads before a program. `NODE_USE_ENV_PROXY` gives the proxy to `fetch` and to the global agents alone, and
 * many SDKs make agents of their own, such as `stripe`. Here each new agent gets it too, unless its maker has chosen
 * a proxy, or its class opens connections in its own way. CommonJS, which every version of Node can load first; before
 * 24.5 the option has no effect.
 */
export const nodeAgents = `"use strict";
const { syncBuiltinESMExports } = require("node:module");
const { env } = require("node:process");
for (const module of [require("node:http"), require("node:https")]) {
  const { Agent } = module;
  const plain = ["addRequest", "createSocket", "createConnection"].map((name) => [name, Agent.prototype[name]]);
  const proxied = (options, prototype) => {
    const isPlain = plain.every(([name, method]) => prototype?.[name] === method);
    return isPlain && options?.proxyEnv === undefined ? { ...options, proxyEnv: env } : options;
  };
  const Proxied = new Proxy(Agent, {
    construct: (target, [options], made) => Reflect.construct(target, [proxied(options, made.prototype)], made),
    apply: (target, self, [options]) =>
      self instanceof Agent ? Reflect.apply(target, self, [proxied(options, self)]) : new Proxied(options),
  });
  // For requests with \`agent: false\`.
  Agent.prototype.constructor = Proxied;
  module.Agent = Proxied;
}
syncBuiltinESMExports();
`;
