// The console's views, in the order of its navigation.

import type { FunctionComponent } from 'preact';
import { Account } from './Account';
import { Domains } from './Domains';

export interface ConsoleView {
  path: string;
  title: string;
  View: FunctionComponent;
}

export const VIEWS: ConsoleView[] = [
  { path: '/settings', title: 'Account', View: Account },
  { path: '/settings/domains', title: 'Domains', View: Domains },
];
