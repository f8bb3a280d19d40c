import type { IncomingHttpHeaders } from "node:http";
import type { DescMessage, DescMethod, DescMethodUnary, DescService } from "@bufbuild/protobuf";
import type { ConnectRouter, MethodImpl, ServiceImpl } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { type BulkImplementation, bulkHandler, bulkMaxBytes, inBulk, isForBulk } from "./bulk/bulk-methods.ts";
import { isBinary } from "./bulk/byte-items.ts";

/** Receives services with their implementations. Of two for the same service, the second counts. */
export interface ServiceRouter {
  service<S extends DescService>(service: S, implementation: Partial<ServiceImpl<S>>): void;
  /** Adds a second implementation of a method, for messages of one format. */
  second(method: SecondMethod): void;
}

/** Registers services. */
export type ServiceRoutes = (router: ServiceRouter) => void;

/** A service with its implementation. */
export interface ServedService {
  readonly register: ServiceRoutes;
  readonly methods: readonly DescMethod[];
}

/** A method with another input, and perhaps another output, of the same wire format. */
export interface SecondMethod {
  readonly method: DescMethod;
  /** Whether it takes the request with this head. */
  readonly takes: (headers: IncomingHttpHeaders) => boolean;
  readonly handlerOf: (
    createRouter: (maxMessageBytes: number) => ConnectRouter,
    maxMessageBytes: number,
  ) => UniversalHandler | undefined;
}

/** A second implementation of a stream, for messages that arrive together. */
export function bulkStream(original: DescMethod, implementation: BulkImplementation): SecondMethod {
  const method = inBulk(original);
  return {
    method,
    takes: isForBulk,
    handlerOf(createRouter, maxMessageBytes) {
      const [handler] = createRouter(bulkMaxBytes(maxMessageBytes)).rpc(method, implementation).handlers;
      return handler && bulkHandler(handler, maxMessageBytes);
    },
  };
}

/** A second implementation of a method with one request and one response, for a binary request. */
export function binaryMethod<I extends DescMessage, O extends DescMessage>(
  original: DescMethodUnary<DescMessage, O>,
  input: I,
  implementation: MethodImpl<DescMethodUnary<I, O>>,
): SecondMethod {
  // It inherits for the same reason as a method of `inBulk`.
  const method = Object.create(original, { input: { value: input, enumerable: true } }) as DescMethodUnary<I, O>;
  return {
    method,
    takes: isBinary,
    handlerOf: (createRouter, maxMessageBytes) => createRouter(maxMessageBytes).rpc(method, implementation).handlers[0],
  };
}

/** A method that the proto lacks is a compile error. */
export const serve = <S extends DescService>(
  service: S,
  methods: ServiceImpl<S>,
  second: readonly SecondMethod[] = [],
): ServedService => ({
  register(router) {
    router.service(service, methods);
    for (const one of second) router.second(one);
  },
  methods: [
    ...service.methods.filter(({ localName }) => Object.hasOwn(methods, localName)),
    ...second.map(({ method }) => method),
  ],
});

export interface MethodHandlers {
  /** The paths of all methods. */
  readonly paths: Iterable<string>;
  of(path: string): UniversalHandler | undefined;
  /** Returns the second handler of a method; undefined if there is none for such a request. */
  second(path: string, headers: IncomingHttpHeaders): UniversalHandler | undefined;
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
  const second = new Map<string, SecondMethod>();
  const madeSecond = new Map<string, UniversalHandler>();
  routes({
    service(service, implementation) {
      register.set(service.typeName, (router) => void router.service(service, implementation));
      for (const { name } of service.methods) paths.add(`/${service.typeName}/${name}`);
    },
    second(one) {
      second.set(`/${one.method.parent.typeName}/${one.method.name}`, one);
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
    second(path, headers) {
      const found = second.get(path);
      if (found?.takes(headers) !== true) return undefined;
      const handler = madeSecond.get(path) ?? found.handlerOf(createRouter, maxMessageBytes);
      if (handler !== undefined) madeSecond.set(path, handler);
      return handler;
    },
  };
}
