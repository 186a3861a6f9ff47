"""The report: one HTML file to look at, figures for papers, and the analyses behind them."""
