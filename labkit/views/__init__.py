"""What people look at: pictures, charts, widgets."""
