import { render } from 'preact';
import { App } from './App';
import { findSession } from './session';
import 'uplot/dist/uPlot.min.css';
import './styles/page.css';

const root = document.getElementById('page');
// A page that shows the form first would take the focus to it.
void findSession().finally(() => {
  if (root) render(<App />, root);
});
