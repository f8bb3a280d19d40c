/** A setting in force, and where its value is from. */
export interface ConfigSetting {
  readonly name: string;
  /** Secrets are `***`. */
  readonly value: string;
  readonly from: "env" | "file" | "default";
  /** Line in the configuration file, for a value from there. */
  readonly line?: number;
}

/** A setting, and what only a page shows. */
export interface PlacedSetting extends ConfigSetting {
  readonly isSecret: boolean;
  /** The variable that holds the value or names its file; undefined for other values. */
  readonly variable?: string;
  /** The file that holds a secret. */
  readonly secretFile?: string;
  readonly meaning?: string;
}

/** A setting of a running process. */
export interface SettingInForce extends PlacedSetting {
  /** The file has another value by now. */
  readonly needsRestart: boolean;
}

/** One difference between two configuration files, by the name of the thing: `integrations.prod/calendar.oauth.client_id`. */
export interface ConfigChange {
  readonly path: string;
  readonly kind: "added" | "removed" | "changed";
  /** The values as shown; undefined if there is none, or if it may be a secret. */
  readonly before?: string;
  readonly after?: string;
}

/** An attempt to apply a changed file. */
export interface ConfigReload {
  readonly atMs: number;
  /** Undefined: the file was applied. */
  readonly mistakes: readonly string[] | undefined;
  readonly differences: readonly (ConfigChange & { readonly needsRestart: boolean })[];
}

/** The configuration in force, for people who ask about it. Nothing is computed until then. */
export interface ConfigInForce {
  /** Path of the configuration file; undefined if there is none. */
  readonly file: string | undefined;
  /** Settings that are allowed, but probably not intended. */
  readonly warnings: readonly string[];
  settings(): Promise<readonly SettingInForce[]>;
  lastReload(): Promise<ConfigReload | undefined>;
  /** Values of the file that are in force only after a restart, by path. */
  waiting(): Promise<readonly string[]>;
}
