/** Where the bar at the top leads: each screen with its address, its key and its code. */

import type { ComponentType } from "preact";
import { JobsScreen } from "./screens/jobs";

export interface Target { path: string; label: string; key: string; load?: () => Promise<ComponentType>; screen?: ComponentType }

export const TARGETS: Target[] = [
  { path: "/", label: "Jobs", key: "j", screen: JobsScreen },
  { path: "/experiments", label: "Experiments", key: "e", load: () => import("./screens/experiments").then((one) => one.ExperimentsScreen) },
  { path: "/compare", label: "Compare", key: "c", load: () => import("./screens/compare").then((one) => one.CompareScreen) },
  { path: "/computes", label: "Computes", key: "m", load: () => import("./screens/computes").then((one) => one.ComputesScreen) },
  { path: "/data", label: "Data", key: "d", load: () => import("./screens/catalog").then((one) => one.CatalogScreen) },
  { path: "/endpoints", label: "Endpoints", key: "p", load: () => import("./screens/endpoints/endpoints").then((one) => one.EndpointsScreen) },
  { path: "/schedules", label: "Schedules", key: "t", load: () => import("./screens/schedules").then((one) => one.SchedulesScreen) },
  { path: "/ledger", label: "Ledger", key: "l", load: () => import("./screens/ledger").then((one) => one.LedgerScreen) },
  { path: "/server", label: "Server", key: "s", load: () => import("./screens/server").then((one) => one.ServerScreen) },
];
