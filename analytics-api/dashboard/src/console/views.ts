// The console's views, in the order of its navigation.

import type { FunctionComponent } from 'preact';
import { Account } from './Account';
import { Activity } from './Activity';
import { AiServices } from './AiServices';
import { ApiKeys } from './ApiKeys';
import { Catalogue } from './Catalogue';
import { Domains } from './Domains';
import { Erasures } from './Erasures';
import { RECEIPTS } from './Evidence';
import { Mails } from './Mails';
import { Members } from './Members';
import { Months } from './Months';
import { Receipts } from './Receipts';
import { Rejected } from './Rejected';
import { Welcome } from './Welcome';

export interface ConsoleView {
  path: string;
  title: string;
  View: FunctionComponent;
}

export const VIEWS: ConsoleView[] = [
  { path: '/welcome', title: 'First steps', View: Welcome },
  { path: '/settings', title: 'Account', View: Account },
  { path: '/settings/members', title: 'Members', View: Members },
  { path: '/settings/mails', title: 'Mails', View: Mails },
  { path: '/settings/domains', title: 'Domains', View: Domains },
  { path: '/settings/catalogue', title: 'Catalogue', View: Catalogue },
  { path: '/settings/keys', title: 'API keys', View: ApiKeys },
  { path: '/settings/services', title: 'AI services', View: AiServices },
  { path: RECEIPTS, title: 'Receipts', View: Receipts },
  { path: '/settings/months', title: 'Months', View: Months },
  { path: '/settings/rejected', title: 'Rejected', View: Rejected },
  { path: '/settings/erasures', title: 'Erasures', View: Erasures },
  { path: '/settings/activity', title: 'Activity', View: Activity },
];

/** The view at `path`; a receipt's evidence is below that of receipts. */
export function viewAt(path: string | null): ConsoleView | undefined {
  if (path?.startsWith(`${RECEIPTS}/`)) return viewAt(RECEIPTS);
  return VIEWS.find((view) => view.path === path);
}
