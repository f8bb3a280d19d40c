import { answerFields, providerKey, smallBytes } from "./proxy-paths.ts";

/** One hop of a candidate: from its own port to an origin. */
export interface Hop {
  readonly port: number;
  readonly origin: { readonly scheme: "http" | "https"; readonly port: number };
}

interface Configured {
  readonly hops: readonly Hop[];
  readonly ca: string;
  readonly folder: string;
  readonly descriptors: number;
}

const many = 1_000_000_000;

/** Streaming both ways, and connections to the origin that are kept. */
export function nginxConfiguration({ hops, ca, folder, descriptors }: Configured): string {
  const servers = hops.map(
    ({ port, origin: { scheme, port: originPort } }, i) => `
    upstream origin${i} { server 127.0.0.1:${originPort}; keepalive 512; keepalive_requests ${many}; }
    server {
      listen 127.0.0.1:${port} backlog=4096;
      location /proxy/ {
        proxy_pass ${scheme}://origin${i}/;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header X-Api-Key "${providerKey}";
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_buffer_size 32k; proxy_buffers 8 32k; proxy_busy_buffers_size 64k;
        proxy_read_timeout 600s;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate ${ca};
        proxy_ssl_name localhost;
        proxy_ssl_server_name on;
      }
    }`,
  );
  return nginx({ folder, descriptors, http: servers.join("\n") });
}

interface OriginConfigured {
  readonly httpPort: number;
  readonly httpsPort: number;
  readonly certificate: string;
  readonly key: string;
  readonly folder: string;
  readonly descriptors: number;
}

/** nginx as the provider: the fastest one, so that the origin limits no candidate. */
export function nginxOrigin({ httpPort, httpsPort, certificate, key, folder, descriptors }: OriginConfigured): string {
  const fields = answerFields.map((line) => {
    const [name = "", value = ""] = line.split(": ", 2);
    return name === "Content-Type" ? "" : `add_header ${name} '${value.replaceAll("'", "\\'")}';`;
  });
  const body = "x".repeat(smallBytes);
  return nginx({
    folder,
    descriptors,
    http: `
    server {
      listen 127.0.0.1:${httpPort} backlog=4096;
      listen 127.0.0.1:${httpsPort} ssl backlog=4096;
      ssl_certificate ${certificate};
      ssl_certificate_key ${key};
      default_type application/json;
      location /fields { ${fields.join(" ")} return 200 "${body}"; }
      location / { return 200 "${body}"; }
    }`,
  });
}

interface Nginx {
  readonly folder: string;
  readonly descriptors: number;
  readonly http: string;
}

const nginx = ({ folder, descriptors, http }: Nginx) => `
  daemon off; master_process off; worker_processes 1;
  pid ${folder}/nginx.pid; error_log stderr crit;
  worker_rlimit_nofile ${descriptors};
  events { worker_connections ${descriptors}; }
  http {
    access_log off; client_max_body_size 0;
    keepalive_requests ${many}; keepalive_timeout 600s;
    client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
    fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
    ${http}
  }`;

export function haproxyConfiguration({ hops, ca, descriptors }: Configured): string {
  const proxies = hops.map(({ port, origin }, i) => {
    const tls =
      origin.scheme === "https" ? ` ssl verify required ca-file ${ca} sni str(localhost) verifyhost localhost` : "";
    return `
listen hop${i}
  bind 127.0.0.1:${port} backlog 4096
  http-request replace-path /proxy(/.*) \\1
  http-request set-header X-Api-Key ${providerKey}
  server origin 127.0.0.1:${origin.port}${tls}`;
  });
  return `
global
  nbthread 1
  maxconn ${Math.floor((descriptors - 200) / 2)}
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
${proxies.join("\n")}
`;
}

export function caddyConfiguration({ hops, ca }: Configured): string {
  const sites = hops.map(({ port, origin }) => {
    const tls =
      origin.scheme === "https"
        ? `transport http {
        tls_trusted_ca_certs ${ca}
        tls_server_name localhost
        keepalive_idle_conns_per_host 512
      }`
        : `transport http {
        keepalive_idle_conns_per_host 512
      }`;
    return `http://127.0.0.1:${port} {
  handle_path /proxy/* {
    reverse_proxy ${origin.scheme}://127.0.0.1:${origin.port} {
      header_up X-Api-Key ${providerKey}
      flush_interval -1
      ${tls}
    }
  }
}`;
  });
  return `{
  admin off
  auto_https off
  log {
    level ERROR
  }
}
${sites.join("\n")}
`;
}
