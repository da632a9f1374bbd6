/** The JSON of the interface, as far as the page reads it. */

export type Scope = "read" | "write" | "subscribe" | "admin";

export interface AccessKey {
  id: string;
  scopes: Scope[];
}

export interface Device {
  id: string;
  name?: string;
  description?: string;
  endpoint_name: string;
  endpoint_type?: string;
  state: string;
  queue_mode?: boolean;
  last_contact_at?: string;
  custom_attributes?: Record<string, string>;
}

export interface Page<Item> {
  data: Item[];
  has_more: boolean;
  total_count?: number;
}

export interface Reported {
  value?: string;
  content_type?: string;
  reported_at?: string;
  /** The time until which the value is fresh, if the device sent one. */
  expires_at?: string;
  revision?: number;
  origin?: string;
}

export interface Desired extends Omit<Reported, "reported_at" | "expires_at" | "origin"> {
  status?: 0 | 1 | 2;
  desired_at?: string;
  category?: string;
  acknowledged_at?: string;
  acknowledged_by?: string;
}

export interface Resource {
  resource_path: string;
  subscribed?: boolean;
  reported: Reported;
  desired: Desired;
}

export interface DeviceObject {
  object: "device-echo";
  device_id: string;
  created_at: string;
  resources: Resource[];
}

export interface SnapshotEnd {
  object: "snapshot-end";
  revision: number;
}

/** A device whose object has not changed since the revision of the request. */
export interface UnchangedDevice {
  object: "device-echo-unchanged";
}

export interface Connection {
  protocol?: string;
  lwm2m_version?: string;
  binding?: string;
  reachable: boolean;
  lifetime_seconds: number;
  last_contact_at?: string;
  address?: string;
}

export type Method = "GET" | "PUT" | "POST";

export interface WaitingRequest {
  async_response_id: string;
  device_id: string;
  method: Method;
  uri: string;
  state: string;
  placed_at: string;
  expires_at: string;
}

/** An entry of the notification log: of any kind, so each member may be absent. */
export interface Entry {
  id?: string;
  ep?: string;
  "original-ep"?: string;
  path?: string;
  payload?: string;
  ct?: string;
  status?: number;
  error?: string;
  timestamp?: number;
  first?: number;
  last?: number;
}

/** The member of a message of the notification log, or the name of a server-sent event. */
export type EntryKind =
  | "notifications" | "async-responses" | "registrations" | "reg-updates" | "de-registrations" | "registrations-expired" | "gap";

export interface HistoryRow {
  object: "history-row";
  path?: string;
  changed_at: string;
  what: string;
  value?: string;
  content_type?: string;
  status?: number;
  category?: string;
  until?: string;
  requested_at?: string;
}

export interface HistoryCursor {
  object: "history-cursor";
}

export interface HistoryEnd {
  object: "history-end";
  /** The cursor that continues after these rows, if there are more. */
  after?: string;
}

/** A declared resource, as the server describes it. */
export interface Declaration {
  name: string;
  type: ValueType;
  access: string;
  unit?: string;
  range?: [number, number];
}

export type ValueType =
  | "string" | "corelink" | "boolean" | "integer" | "unsigned" | "float" | "time" | "objlink" | "opaque";
