import packaged from "@jitl/quickjs-ng-wasmfile-release-sync";

// The package's types describe its CommonJS build, where the default export is a field; this imports the ESM build.
export const variant = packaged as unknown as (typeof packaged)["default"];

/** The engine's functions, as WebAssembly exports them. */
export type Ffi = InstanceType<Awaited<ReturnType<typeof variant.importFFI>>>;
export type Module = ConstructorParameters<Awaited<ReturnType<typeof variant.importFFI>>>[0];
export type RuntimePointer = ReturnType<Ffi["QTS_NewRuntime"]>;
export type ContextPointer = ReturnType<Ffi["QTS_NewContext"]>;
export type ValuePointer = ReturnType<Ffi["QTS_NewObject"]>;
