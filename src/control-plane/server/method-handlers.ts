import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { ConnectRouter, ServiceImpl } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";

/** Receives services with their implementations. Of two for the same service, the second counts. */
export interface ServiceRouter {
  service<S extends DescService>(service: S, implementation: Partial<ServiceImpl<S>>): void;
}

/** Registers services. */
export type ServiceRoutes = (router: ServiceRouter) => void;

/** A service with its implementation. */
export interface ServedService {
  readonly register: ServiceRoutes;
  readonly methods: readonly DescMethod[];
}

/** A method that the proto lacks is a compile error. */
export const serve = <S extends DescService>(service: S, methods: ServiceImpl<S>): ServedService => ({
  register: (router) => void router.service(service, methods),
  methods: service.methods.filter(({ localName }) => Object.hasOwn(methods, localName)),
});

export interface MethodHandlers {
  /** The paths of all methods. */
  readonly paths: Iterable<string>;
  of(path: string): UniversalHandler | undefined;
}

/**
 * Makes the handlers of a service for its first call: three protocols for each of 170 methods, before and after the
 * start, take 3 % of a start and 1.4 MB.
 */
export function createMethodHandlers(routes: ServiceRoutes, createRouter: () => ConnectRouter): MethodHandlers {
  const register = new Map<string, (router: ConnectRouter) => void>();
  const paths = new Set<string>();
  const made = new Map<string, UniversalHandler>();
  routes({
    service(service, implementation) {
      register.set(service.typeName, (router) => void router.service(service, implementation));
      for (const { name } of service.methods) paths.add(`/${service.typeName}/${name}`);
    },
  });
  return {
    paths,
    of(path) {
      const known = made.get(path);
      if (known !== undefined || !paths.has(path)) return known;
      const router = createRouter();
      register.get(path.slice(1, path.lastIndexOf("/")))?.(router);
      for (const handler of router.handlers) made.set(handler.requestPath, handler);
      return made.get(path);
    },
  };
}
