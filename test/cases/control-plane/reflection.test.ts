import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { endOf, foreignClient, type Plain } from "./foreign.ts";
import { startYoungPlane } from "./plane.ts";
import { methods, services } from "./services.ts";

const versions = ["v1", "v1alpha"];

/** Sends one question after another on a stream, as tools do. No key and no store are needed. */
async function ask(version: string, questions: readonly Plain[]): Promise<Plain[]> {
  const { address } = await startYoungPlane();
  const stream = foreignClient(address).bidi(`grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`, {
    key: "",
  });
  const ended = endOf(stream);
  const answers: Plain[] = [];
  for (const question of questions) {
    const answered = new Promise<Plain>((resolve) => stream.once("data", resolve));
    stream.write({ host: "somewhere", ...question });
    answers.push(await answered);
  }
  stream.end();
  expect((await ended).code).toBe(0);
  return answers;
}

const filesIn = (answer: Plain | undefined) =>
  (answer?.["file_descriptor_response"]?.file_descriptor_proto ?? []).map(
    (bytes: Uint8Array) => fromBinary(FileDescriptorProtoSchema, bytes).name,
  );

it.each(versions)("lists every service by reflection %s, before there is a key or a store", async (version) => {
  const [answer] = await ask(version, [{ list_services: "" }]);
  const names = answer?.["list_services_response"].service.map(({ name }: Plain) => name);
  expect(names).toEqual([
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    ...services.map(({ typeName }) => typeName),
  ]);
});

it.each(versions)("finds requested symbols by reflection %s, with their dependencies", async (version) => {
  const [connection] = services.filter(({ name }) => name === "ConnectionService");
  const symbols = [
    "latchkey.v1.ConnectionService",
    "latchkey.v1.ConnectionService.GetConnection",
    "latchkey.v1.Connection",
    "latchkey.v1.Connection.State",
    "latchkey.v1.Connection.metadata",
  ];
  const answers = await ask(version, [
    ...symbols.map((symbol) => ({ file_containing_symbol: symbol })),
    { file_by_filename: "latchkey/v1/connection.proto" },
  ]);
  for (const answer of answers) {
    expect(answer["valid_host"]).toBe("somewhere");
    expect(filesIn(answer)[0]).toBe(connection?.file.proto.name);
    expect(filesIn(answer)).toEqual(
      expect.arrayContaining([
        "latchkey/v1/access.proto",
        "google/protobuf/struct.proto",
        "buf/validate/validate.proto",
      ]),
    );
  }
});

it.each(versions)("knows every service and method by its name by reflection %s", async (version) => {
  const names = methods.map(({ parent, name }) => `${parent.typeName}.${name}`);
  const answers = await ask(
    version,
    names.map((symbol) => ({ file_containing_symbol: symbol })),
  );
  const unknown = names.filter((_, i) => filesIn(answers[i]).length === 0);
  expect(unknown).toEqual([]);
});

it.each(versions)("finds extensions by reflection %s: the scope of a method", async (version) => {
  const type = "google.protobuf.MethodOptions";
  const [numbers, file] = await ask(version, [
    { all_extension_numbers_of_type: type },
    { file_containing_extension: { containing_type: type, extension_number: 51_001 } },
  ]);
  expect(numbers?.["all_extension_numbers_response"].extension_number).toContain(51_001);
  expect(filesIn(file)[0]).toBe("latchkey/v1/access.proto");
});

it.each(versions)("reports unknown symbols by reflection %s, and continues", async (version) => {
  const notFound = 5;
  const [symbol, file, extension, nothing, again] = await ask(version, [
    { file_containing_symbol: "latchkey.v1.Nobody" },
    { file_by_filename: "../../etc/passwd" },
    { file_containing_extension: { containing_type: "latchkey.v1.Connection", extension_number: 1 } },
    {},
    { list_services: "" },
  ]);
  for (const answer of [symbol, file, extension, nothing]) {
    expect(answer?.["error_response"].error_code).toBe(notFound);
  }
  expect(again?.["list_services_response"].service.length).toBeGreaterThan(services.length);
});
