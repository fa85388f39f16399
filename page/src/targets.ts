/** Where the bar at the top leads: each screen with its address, its key and its code. */

import type { ComponentType } from "preact";
import { late } from "./parts/late";
import { JobsScreen } from "./screens/jobs";

export interface Target { path: string; label: string; key: string; screen: ComponentType }

export const TARGETS: Target[] = [
  { path: "/", label: "Jobs", key: "j", screen: JobsScreen },
  { path: "/experiments", label: "Experiments", key: "e", screen: late(() => import("./screens/experiments").then((one) => one.ExperimentsScreen)) },
  { path: "/compare", label: "Compare", key: "c", screen: late(() => import("./screens/compare").then((one) => one.CompareScreen)) },
  { path: "/computes", label: "Computes", key: "m", screen: late(() => import("./screens/computes").then((one) => one.ComputesScreen)) },
  { path: "/data", label: "Data", key: "d", screen: late(() => import("./screens/catalog").then((one) => one.CatalogScreen)) },
  { path: "/endpoints", label: "Endpoints", key: "p", screen: late(() => import("./screens/endpoints/endpoints").then((one) => one.EndpointsScreen)) },
  { path: "/schedules", label: "Schedules", key: "t", screen: late(() => import("./screens/schedules").then((one) => one.SchedulesScreen)) },
  { path: "/ledger", label: "Ledger", key: "l", screen: late(() => import("./screens/ledger").then((one) => one.LedgerScreen)) },
  { path: "/server", label: "Server", key: "s", screen: late(() => import("./screens/server").then((one) => one.ServerScreen)) },
  { path: "/docs", label: "Docs", key: "h", screen: late(() => import("./screens/docs").then((one) => one.DocsScreen)) },
];
