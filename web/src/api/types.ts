/** Short names for the schemas of the server's OpenAPI document, from which `schema.ts` is generated. */

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Artifact = Schemas["ArtifactOut"];
export type Benchmark = Schemas["BenchmarkOut"];
export type Build = Schemas["BuildOut"];
export type BuildProgress = Schemas["ProgressOut"];
export type Check = Schemas["CheckOut"];
export type Dataset = Schemas["DatasetOut"];
export type DatasetFits = Schemas["FitsOut"];
export type ModelFit = Schemas["ModelFitOut"];
export type DatasetLabels = Schemas["LabelsOut"];
export type DatasetPreview = Schemas["PreviewOut"];
export type DatasetStatistics = Schemas["StatisticsOut"];
export type DatasetTensor = Schemas["TensorOut"];
export type Device = Schemas["DeviceOut"];
export type DevicePage = Schemas["DevicePage"];
export type DevicePolicy = Schemas["DevicePolicyOut"];
export type DeviceTotals = Schemas["DeviceTotals"];
export type EnrolmentToken = Schemas["TokenCreated"];
export type About = Schemas["AboutOut"];
export type Approximation = Schemas["ApproximationOut"];
export type Estimate = Schemas["EstimateOut"];
export type KernelTime = Schemas["KernelMs"];
export type Layer = Schemas["LayerOut"];
export type Me = Schemas["MeOut"];
export type Model = Schemas["ModelOut"];
export type PlanNode = Schemas["NodeOut"];
export type Port = Schemas["PortOut"];
export type Program = Schemas["ProgramOut"];
export type Recipe = Schemas["RecipeOut"];
export type RecipeBrief = Schemas["RecipeBrief"];
export type Report = Schemas["ReportOut"];
export type Run = Schemas["RunOut"];
export type Search = Schemas["SearchOut"];
/** One value's place in the arena: bytes `offset … offset + nbytes`, alive from node `first` to node `last` inclusive. */
export type Slot = Schemas["SlotOut"];
export type Step = Schemas["StepOut"];
export type Summary = Schemas["SummaryOut"];
export type Target = Schemas["TargetOut"];
export type Takes = Schemas["TakesOut"];
export type Tensor = Schemas["ArtifactTensorOut"];

export const BUILD_ENDED: readonly Build["state"][] = ["succeeded", "failed", "cancelled"];
export const RUN_ENDED: readonly Run["state"][] = ["succeeded", "failed", "cancelled"];
export type Overview = Schemas["OverviewOut"];
export type Concern = Schemas["ConcernOut"];
export type ApiKey = Schemas["ApiKeyOut"];
export type ApiKeyCreated = Schemas["ApiKeyCreated"];
export type BrowserSession = Schemas["BrowserSessionOut"];
/** Two schemas of the document are named MemberOut; this is the one of people. */
export type Member = NonNullable<Me["member"]>;
export type AuditEntry = Schemas["AuditEntry"];
export type Usage = Schemas["UsageOut"];
export type Webhook = Schemas["WebhookOut"];
export type WebhookCreated = Schemas["WebhookCreated"];
export type WebhookEvent = Webhook["events"][number];
export type Delivery = Schemas["DeliveryOut"];
export type AgentRelease = Schemas["AgentReleaseOut"];
export type Rollout = Schemas["RolloutOut"];
export type RolloutDevice = Schemas["RolloutDeviceOut"];
export type TuningEntry = Schemas["TuningEntryOut"];
export type Tuning = Schemas["TuningOut"];
export type Distrust = Schemas["DistrustOut"];

export type GraphNode = Schemas["GraphNodeOut"];
export type GraphPicture = Schemas["GraphOut"];
export type Campaign = Schemas["CampaignOut"];
export type CampaignCell = Schemas["CellOut"];
export type CampaignResult = Schemas["CampaignResult"];
export type CampaignResults = Schemas["CampaignResults"];
export type CellCounts = Schemas["CellCounts"];
export type PoolPolicy = Schemas["PoolPolicyOut"];
