import type { IncomingHttpHeaders } from "node:http";
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { ConnectRouter, ServiceImpl } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import {
  type BulkImplementation,
  type BulkMethod,
  bulkHandler,
  bulkMaxBytes,
  inBulk,
  isForBulk,
} from "./bulk/bulk-methods.ts";

/** Receives services with their implementations. Of two for the same service, the second counts. */
export interface ServiceRouter {
  service<S extends DescService>(service: S, implementation: Partial<ServiceImpl<S>>): void;
  /** Adds a second implementation of a stream, for messages that arrive together. */
  bulk(method: BulkMethod, implementation: BulkImplementation): void;
}

/** Registers services. */
export type ServiceRoutes = (router: ServiceRouter) => void;

/** A service with its implementation. */
export interface ServedService {
  readonly register: ServiceRoutes;
  readonly methods: readonly DescMethod[];
}

/** A second implementation of a stream. */
export interface BulkStream {
  readonly method: DescMethod;
  readonly implementation: BulkImplementation;
}

/** A method that the proto lacks is a compile error. */
export function serve<S extends DescService>(
  service: S,
  methods: ServiceImpl<S>,
  bulk: readonly BulkStream[] = [],
): ServedService {
  const streams = bulk.map(({ method, implementation }) => ({ method: inBulk(method), implementation }));
  return {
    register(router) {
      router.service(service, methods);
      for (const { method, implementation } of streams) router.bulk(method, implementation);
    },
    methods: [
      ...service.methods.filter(({ localName }) => Object.hasOwn(methods, localName)),
      ...streams.map(({ method }) => method),
    ],
  };
}

export interface MethodHandlers {
  /** The paths of all methods. */
  readonly paths: Iterable<string>;
  of(path: string): UniversalHandler | undefined;
  /** Returns the second handler of a stream; undefined if there is none for such messages. */
  inBulk(path: string, headers: IncomingHttpHeaders): UniversalHandler | undefined;
}

interface MethodHandlersOptions {
  readonly routes: ServiceRoutes;
  readonly createRouter: (maxMessageBytes: number) => ConnectRouter;
  readonly maxMessageBytes: number;
}

/**
 * Makes the handlers of a service for its first call: three protocols for each of 170 methods, before and after the
 * start, take 3 % of a start and 1.4 MB.
 */
export function createMethodHandlers(options: MethodHandlersOptions): MethodHandlers {
  const { routes, createRouter, maxMessageBytes } = options;
  const register = new Map<string, (router: ConnectRouter) => void>();
  const paths = new Set<string>();
  const made = new Map<string, UniversalHandler>();
  const bulk = new Map<string, () => UniversalHandler | undefined>();
  const madeInBulk = new Map<string, UniversalHandler>();
  routes({
    service(service, implementation) {
      register.set(service.typeName, (router) => void router.service(service, implementation));
      for (const { name } of service.methods) paths.add(`/${service.typeName}/${name}`);
    },
    bulk(method, implementation) {
      bulk.set(`/${method.parent.typeName}/${method.name}`, () => {
        const router = createRouter(bulkMaxBytes(maxMessageBytes)).rpc(method, implementation);
        const [handler] = router.handlers;
        return handler && bulkHandler(handler, maxMessageBytes);
      });
    },
  });
  return {
    paths,
    of(path) {
      const known = made.get(path);
      if (known !== undefined || !paths.has(path)) return known;
      const router = createRouter(maxMessageBytes);
      register.get(path.slice(1, path.lastIndexOf("/")))?.(router);
      for (const handler of router.handlers) made.set(handler.requestPath, handler);
      return made.get(path);
    },
    inBulk(path, headers) {
      if (!bulk.has(path) || !isForBulk(headers)) return undefined;
      const handler = madeInBulk.get(path) ?? bulk.get(path)?.();
      if (handler !== undefined) madeInBulk.set(path, handler);
      return handler;
    },
  };
}
