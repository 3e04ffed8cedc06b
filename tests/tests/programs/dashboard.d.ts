// The type of packaging/monitoring/orthrus-dashboard.json, made of Grafana's own types, so that a
// compiler finds what Grafana would not understand: see dashboard.rs.

import type { Dashboard, DataQuery, Panel } from "@grafana/schema";
import type {
  FieldConfig as TimeSeriesFields,
  Options as TimeSeriesOptions,
} from "@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen";
import type { Options as StatOptions } from "@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen";

/** The type in JSON, which has the values of enumerations instead of their names. */
type Json<T> = T extends string
  ? `${T}`
  : T extends number | boolean | null | undefined
    ? T
    : unknown extends T
      ? T
      : T extends (infer Item)[]
        ? Json<Item>[]
        : T extends object
          ? { [Key in keyof T]: Json<T[Key]> }
          : T;

type PanelJson = Json<Panel>;
type FieldsJson = NonNullable<PanelJson["fieldConfig"]>;

/** A query of Prometheus. */
type Target = Json<DataQuery> & { expr: string; legendFormat?: string; instant?: boolean };

/** A panel of one kind. The common type knows neither its options nor its fields. */
type PanelOf<Kind, Options, Custom> = Omit<PanelJson, "type" | "options" | "fieldConfig" | "targets"> & {
  type: Kind;
  options: Json<Options>;
  fieldConfig: Omit<FieldsJson, "defaults"> & {
    defaults: Omit<FieldsJson["defaults"], "custom"> & { custom?: Json<Custom> };
  };
  targets: Target[];
};

export type OrthrusDashboard = Omit<Json<Dashboard>, "panels"> & {
  panels: (PanelOf<"timeseries", TimeSeriesOptions, TimeSeriesFields> | PanelOf<"stat", StatOptions, never>)[];
};
