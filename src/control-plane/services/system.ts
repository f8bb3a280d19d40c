import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { mayDo } from "../../broker/setup/caller.ts";
import { type FoundWarning, inOrder } from "../../broker/system/warning-list.ts";
import type { ConfigInForce, SettingInForce } from "../../core/config-in-force.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  ConfigDifference_Kind as Kind,
  ConfigSetting_Origin as Origin,
  Warning_Severity as Severity,
  Warning_Subject as Subject,
  type SystemService,
} from "../../gen/latchkey/v1/system_pb.ts";
import { callerOf } from "../server/context.ts";

export const systemService = (
  { warnings, replicas }: Broker,
  config: ConfigInForce,
): ServiceImpl<typeof SystemService> => ({
  async getConfig() {
    const [settings, reload] = await Promise.all([config.settings(), config.lastReload()]);
    return {
      settings: settings.map((one) => settingOf(one, config.file ?? "")),
      file: config.file ?? "",
      ...(reload && {
        lastReload: {
          at: timestampFromMs(reload.atMs),
          applied: reload.mistakes === undefined,
          mistakes: [...(reload.mistakes ?? [])],
          differences: reload.differences.map(({ path, kind, before = "", after = "", needsRestart }) => ({
            name: path,
            kind: kinds[kind],
            before,
            after,
            needsRestart,
          })),
        },
      }),
    };
  },
  async listWarnings({ environment }, context) {
    const caller = callerOf(context);
    const ofEnvironments = await warnings.ofEnvironments(caller, environment);
    const seesAll = environment === "" && caller.environment === undefined && mayDo(caller, Scope.ADMIN);
    const ofSystem = seesAll ? [...(await warnings.ofSystem(context.signal)), ...(await configWarnings(config))] : [];
    return inOrder([...ofEnvironments, ...ofSystem]);
  },
  async listReplicas() {
    return { replicas: [...(await replicas.list())] };
  },
});

const kinds = { added: Kind.ADDED, removed: Kind.REMOVED, changed: Kind.CHANGED } as const;

function settingOf({ name, value, from, line = 0, ...about }: SettingInForce, file: string) {
  const { isSecret, variable = "", secretFile = "", meaning = "", needsRestart } = about;
  const isInFile = from === "file" || secretFile !== "";
  return {
    name,
    value: isSecret ? "" : value,
    origin: from === "default" ? Origin.DEFAULT : isInFile ? Origin.FILE : Origin.VARIABLE,
    variable,
    file: from === "file" ? file : secretFile,
    line,
    secret: isSecret,
    meaning,
    needsRestart,
  };
}

const ofConfig = { subject: Subject.CONFIG, severity: Severity.WARNING, doc: "configuration.md#what-a-reload-changes" };

async function configWarnings(config: ConfigInForce): Promise<readonly FoundWarning[]> {
  const [reload, waiting] = await Promise.all([config.lastReload(), config.waiting()]);
  return [
    ...config.warnings.map((message) => ({ ...ofConfig, code: "config_warning", message, doc: "configuration.md" })),
    ...(reload?.mistakes === undefined
      ? []
      : [
          {
            ...ofConfig,
            code: "config_rejected",
            severity: Severity.CRITICAL,
            message: `the changed configuration file was rejected: ${reload.mistakes.slice(0, 3).join("; ")}`,
            remedy: "correct the file; the previous configuration is in force until then",
          },
        ]),
    ...(waiting.length === 0
      ? []
      : [
          {
            ...ofConfig,
            code: "restart_needed",
            message: `changes of the file are in force only after a restart: ${waiting.slice(0, 5).join(", ")}`,
            remedy: "restart Latchkey",
          },
        ]),
  ];
}
